//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/redlock"
)

// The command's exit statuses.
const (
	exitUnavailable = 69
	exitLost        = 74
	exitHeld        = 75
	exitConfig      = 78
)

// command is the built command with its servers.
type command struct {
	path  string
	nodes []*redistest.Node
}

func buildCommand(t *testing.T, nodes []*redistest.Node) command {
	t.Helper()
	path, err := builtCommand()
	require.NoError(t, err)
	return command{path, nodes}
}

var (
	// builtCommand is the command as users have it.
	builtCommand = sync.OnceValues(func() (string, error) { return built("redlock") })
	// builtDemo is for the demo, whose acts end at the first pause of a second otherwise.
	builtDemo = sync.OnceValues(func() (string, error) { return built("redlock-demo", "-tags=redlock_long_timeouts") })
	// commandFolder has both, for all tests of this process. TestMain removes it.
	commandFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "redlock-command") })
)

// built builds the command.
func built(name string, flags ...string) (string, error) {
	folder, err := commandFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, name)
	args := slices.Concat([]string{"build", "-o", path}, flags, []string{"github.com/quorumlock/go-redlock/cmd/redlock"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
}

// running is a running call of the command.
type running struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// start starts the command. The standard input of the command's child ends when in is closed.
func (c command) start(t *testing.T, words ...string) *running {
	t.Helper()
	// Without a bound a failed test would wait forever. It is longer than what tests allow a command.
	ctx, cancel := context.WithTimeout(context.Background(), 2*redistest.Slack*patience)
	t.Cleanup(cancel)
	r := &running{Cmd: exec.CommandContext(ctx, c.path, words...)}
	r.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(redistest.URLs(c.nodes), ","))
	r.Stderr = &r.stderr
	r.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // detached from the terminal of the test run
	in, err := r.StdinPipe()
	require.NoError(t, err)
	out, err := r.StdoutPipe()
	require.NoError(t, err)
	r.in, r.out = in, bufio.NewReader(out)
	require.NoError(t, r.Start())
	return r
}

// line returns the next line of standard output.
func (r *running) line(t *testing.T) string {
	t.Helper()
	s, err := r.out.ReadString('\n')
	require.NoError(t, err, "%s", &r.stderr)
	return strings.TrimSuffix(s, "\n")
}

// exit waits for the end, and returns the status and the rest of standard output.
func (r *running) exit(t *testing.T) (status int, out string) {
	t.Helper()
	rest, err := io.ReadAll(r.out)
	require.NoError(t, err)
	err = r.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		require.NoError(t, err)
	}
	return r.ProcessState.ExitCode(), string(rest)
}

// call runs the command to its end.
func (c command) call(t *testing.T, words ...string) (status int, out, stderr string) {
	t.Helper()
	r := c.start(t, words...)
	require.NoError(t, r.in.Close())
	status, out = r.exit(t)
	return status, out, r.stderr.String()
}

// nodeTimeout is how long a command waits for the nodes' answers.
const nodeTimeout = 2 * time.Second

// served is call, repeated if there was no quorum because the machine stopped: the command has then
// waited for its node timeout.
func (c command) served(t *testing.T, words ...string) (status int, out, stderr string) {
	t.Helper()
	await(t, "the command has a quorum", func() bool {
		began := time.Now()
		status, out, stderr = c.call(t, words...)
		if status != exitUnavailable {
			return true
		}
		require.GreaterOrEqual(t, time.Since(began), nodeTimeout, stderr)
		return false
	})
	return status, out, stderr
}

// holdOn is a child that prints what it was given and runs until its input ends.
var holdOn = []string{"--export-token", "--", "sh", "-c", `echo "$REDLOCK_NAME $REDLOCK_TOKEN $$"; cat`}

func words(w []string, more ...string) []string { return append(append([]string(nil), w...), more...) }

func TestTheCommandOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	l := open(t, nodes, redlock.WithNodeTimeout(patience))
	answered(t, l)
	t.Run("run holds the lock while its command runs", func(t *testing.T) { c.testHolds(t, l) })
	t.Run("a second run waits, or reports that the lock is held", func(t *testing.T) { c.testSecond(t) })
	t.Run("status", func(t *testing.T) { c.testStatus(t, l) })
	t.Run("a frozen node delays no command", func(t *testing.T) { c.testFrozen(t) })
	t.Run("killed with SIGKILL", func(t *testing.T) { c.testKilled(t) })
	t.Run("demo", func(t *testing.T) { c.testDemo(t) })
	t.Run("the lock is lost", func(t *testing.T) { c.testLost(t) })
	t.Run("no quorum", func(t *testing.T) { c.testNoQuorum(t) })
}

func (c command) testHolds(t *testing.T, l *redlock.Locker) {
	t.Helper()
	const ttl = 24 * time.Second // a machine that is busy may stop a process for seconds
	r := c.start(t, words([]string{"run", "--ttl", ttl.String(), "--owner", "me", "job"}, holdOn...)...)
	given := strings.Fields(r.line(t))
	require.Len(t, given, 3)
	assert.Equal(t, "job", given[0])
	require.Regexp(t, "^me:", given[1])
	heldEverywhere(t, c.nodes, "job")
	held := func() {
		s, err := l.Inspect(t.Context(), "job")
		require.NoError(t, err)
		assert.True(t, s.Held)
		assert.Equal(t, "me", s.Owner)
		_, err = l.TryAcquire(t.Context(), "job", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		for _, n := range c.nodes {
			token, err := redis.String(n.Do(t, "GET", "job"), nil)
			require.NoError(t, err)
			assert.Equal(t, given[1], token)
		}
	}
	left := func() int64 {
		ms, err := redis.Int64(c.nodes[0].Do(t, "PTTL", "job"), nil)
		require.NoError(t, err)
		return ms
	}
	held()
	before := left()
	await(t, "the lock is extended", func() bool {
		now := left()
		extended := now > before
		before = now
		return extended
	})
	held()
	require.NoError(t, r.in.Close())
	status, _ := r.exit(t)
	assert.Zero(t, status, "%s", &r.stderr)
	redistest.NoKeys(t, c.nodes, time.Second)
}

func (c command) testSecond(t *testing.T) {
	t.Helper()
	first := c.start(t, words([]string{"run", "job"}, holdOn...)...)
	first.line(t)
	status, out, said := c.served(t, "run", "--wait", "0", "job", "--", "echo", "must not run")
	assert.Equal(t, exitHeld, status, said)
	assert.Empty(t, out)
	status, out, said = c.served(t, "run", "--wait", "300ms", "job", "--", "echo", "must not run")
	assert.Equal(t, exitHeld, status, said)
	assert.Empty(t, out)

	await(t, "no process waits any more", func() bool { return c.waiting(t) == 0 })
	second := c.start(t, "run", "--wait", "30s", "job", "--", "sh", "-c", "echo second; exit 7")
	await(t, "the second command has found the lock held, and waits", func() bool { return c.waiting(t) == len(c.nodes) })
	require.NoError(t, first.in.Close())
	status, _ = first.exit(t)
	assert.Zero(t, status, "%s", &first.stderr)
	status, out = second.exit(t)
	assert.Equal(t, 7, status, "the status of the child: %s", &second.stderr)
	assert.Equal(t, "second\n", out)
	redistest.NoKeys(t, c.nodes, time.Second)
}

// waiting returns how many nodes have a process that waits for a release of "job".
func (c command) waiting(t *testing.T) (n int) {
	t.Helper()
	for _, node := range c.nodes {
		if listeners(t, node, "job") > 0 {
			n++
		}
	}
	return n
}

func (c command) testStatus(t *testing.T, l *redlock.Locker) {
	t.Helper()
	status, out, said := c.served(t, "status", "job")
	assert.Zero(t, status, said)
	assert.Contains(t, out, "job is free")
	r := c.start(t, words([]string{"run", "--owner", "me", "job"}, holdOn...)...)
	token := strings.Fields(r.line(t))[1]
	heldEverywhere(t, c.nodes, "job")

	status, out, said = c.served(t, "status", "job")
	assert.Zero(t, status, said)
	assert.Contains(t, out, `job is held by "me"`)
	assert.NotContains(t, out, token)
	status, out, said = c.served(t, "status", "--json", "job")
	assert.Zero(t, status, said)
	var s struct {
		Name, State, Owner string
		LeftMS             int64 `json:"left_ms"`
		Nodes              []struct{ Held bool }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &s), "%s", out)
	assert.Equal(t, "job", s.Name)
	assert.Equal(t, "held", s.State)
	assert.Equal(t, "me", s.Owner)
	assert.Positive(t, s.LeftMS)
	assert.Len(t, s.Nodes, 3)
	assert.NotContains(t, out, token)

	require.NoError(t, r.in.Close())
	r.exit(t)
	redistest.NoKeys(t, c.nodes, time.Second)
	answered(t, l)
	require.NoError(t, l.Healthy(t.Context()))
}

func (c command) testFrozen(t *testing.T) {
	t.Helper()
	c.nodes[1].Pause(t)
	began := time.Now()
	status, out, said := c.call(t, "run", "job", "--", "echo", "runs")
	took := time.Since(began)
	c.nodes[1].Unpause(t)
	assert.Zero(t, status, said)
	assert.Equal(t, "runs\n", out)
	assert.Less(t, took, redistest.Slack*5*time.Second, "it does not wait until the lock would expire")
	redistest.NoKeys(t, c.nodes, 35*time.Second) // keys that the process could not delete expire by TTL
}

func (c command) testKilled(t *testing.T) {
	t.Helper()
	r := c.start(t, words([]string{"run", "--ttl", "7s", "job"}, holdOn...)...)
	child, err := strconv.Atoi(strings.Fields(r.line(t))[2])
	require.NoError(t, err)
	require.NoError(t, r.Process.Kill())
	awaitFor(t, 2*time.Second, "the child is dead before the lock can be another's", func() bool {
		return errors.Is(syscall.Kill(child, 0), syscall.ESRCH)
	})
	r.exit(t)
	redistest.NoKeys(t, c.nodes, 4*time.Second)
}

func (c command) testDemo(t *testing.T) {
	t.Helper()
	late.LeaveOut(t, "it measures times, and so does the demo")
	path, err := builtDemo()
	require.NoError(t, err)
	began := time.Now()
	status, out, said := command{path, c.nodes}.call(t, "demo", "--nodes", strings.Join(redistest.URLs(c.nodes), ","))
	assert.Zero(t, status, "%s%s", out, said)
	assert.Less(t, time.Since(began), redistest.Slack*30*time.Second)
	redistest.NoKeys(t, c.nodes, time.Second)
}

func (c command) testLost(t *testing.T) {
	t.Helper()
	const ttl = 24 * time.Second
	r := c.start(t, words([]string{"run", "--ttl", ttl.String(), "job"}, holdOn...)...)
	r.line(t)
	heldEverywhere(t, c.nodes, "job")
	c.nodes[0].Restart(t)
	c.nodes[1].Restart(t)
	began := time.Now()
	status, _ := r.exit(t)
	assert.Equal(t, exitLost, status, "%s", &r.stderr)
	assert.Contains(t, r.stderr.String(), "no longer hold it", "the next extension notices it, and not the end of the TTL")
	assert.Less(t, time.Since(began), ttl)
	redistest.NoKeys(t, c.nodes, time.Second)
}

func (c command) testNoQuorum(t *testing.T) {
	t.Helper()
	c.nodes[0].Kill(t)
	c.nodes[1].Kill(t)
	status, out, said := c.call(t, "run", "--wait", "0", "job", "--", "echo", "must not run")
	assert.Equal(t, exitUnavailable, status, said)
	assert.Empty(t, out)
	for _, n := range c.nodes {
		assert.Contains(t, said, n.Addr(), "the message names every node")
	}
	status, _, said = c.call(t, "run", "--wait", "300ms", "job", "--", "echo", "must not run")
	assert.Equal(t, exitUnavailable, status, said)
	status, _, said = c.call(t, "status", "job")
	assert.Equal(t, exitUnavailable, status, said)
	status, _, said = c.call(t, "demo")
	assert.NotZero(t, status, said)
	c.nodes[0].Restart(t)
	c.nodes[1].Restart(t)
	redistest.NoKeys(t, c.nodes, time.Second)
}
