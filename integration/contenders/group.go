//go:build unix

package contenders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Patience bounds every wait for contenders. Tests end long before it, unless something is wrong.
const Patience = 2 * time.Minute

// Group is the processes of contenders and what they have reported.
type Group struct {
	processes []*exec.Cmd
	ends      []io.Closer
	reading   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	holds  []Hold
	faulty []string
}

// Start begins a process for each task. A task must survive JSON. Processes that still run when the
// test ends are killed.
func Start[T any](t testing.TB, tasks ...T) *Group {
	t.Helper()
	c := &Group{}
	t.Cleanup(c.kill)
	for _, one := range tasks {
		text, err := json.Marshal(one)
		require.NoError(t, err)
		c.start(t, string(text))
	}
	return c
}

func (c *Group) start(t testing.TB, task string) {
	t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(
		os.Environ(),
		taskEnv+"="+task,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"), // the race detector sleeps for a second at the end of a process
	)
	p.Stderr = &bytes.Buffer{}
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	c.processes, c.ends = append(c.processes, p), append(c.ends, in)
	c.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.take(lines.Bytes())
		}
	})
}

func (c *Group) take(text []byte) {
	var given line
	err := json.Unmarshal(text, &given)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && given.Held != nil:
		c.holds = append(c.holds, *given.Held)
	case err == nil && given.Failed != "":
		c.faulty = append(c.faulty, given.Failed)
	default:
		c.faulty = append(c.faulty, string(text))
	}
}

// Holds returns the holds that have been reported so far.
func (c *Group) Holds() []Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.holds)
}

// Faults returns what the processes have reported as failures.
func (c *Group) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faulty)
}

// Until waits until ok returns true for the holds since the call of Until, and calls between about
// every 100 ms. It fails the test if that takes longer than [Patience]. It then names what it waited for,
// and for how long the machine stopped this process at most.
func (c *Group) Until(t testing.TB, what string, ok func(since []Hold) bool, between func(nth int)) {
	t.Helper()
	before, deadline, stopped := len(c.Holds()), time.Now().Add(Patience), time.Duration(0)
	for nth := 0; !ok(c.Holds()[before:]); nth++ {
		if time.Now().After(deadline) {
			require.FailNow(t, "timeout", "for %v, until %s: %d holds since, and %d before; the machine stopped for up to %v; %v",
				Patience, what, len(c.Holds())-before, before, stopped, c.Faults())
		}
		if between != nil {
			between(nth)
		}
		const pause = 100 * time.Millisecond
		asleep := time.Now()
		time.Sleep(pause)
		stopped = max(stopped, time.Since(asleep)-pause)
	}
}

// Stop ends the processes. The test fails if one of them left a goroutine behind or reported a
// failure.
func (c *Group) Stop(t testing.TB) {
	t.Helper()
	for _, in := range c.ends {
		require.NoError(t, in.Close())
	}
	timer := time.AfterFunc(Patience, c.kill)
	defer timer.Stop()
	c.reading.Wait()
	for _, p := range c.processes {
		assert.NoError(t, p.Wait(), "%v", p.Stderr)
	}
	assert.Empty(t, c.Faults())
}

func (c *Group) kill() {
	for _, p := range c.processes {
		_ = p.Process.Kill()
	}
}
