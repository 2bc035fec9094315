//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
)

const exitFailed = 1

// fill writes n keys that look like locks, and as many that do not, on a node.
const fill = `
for i = 1, tonumber(ARGV[1]) do
  redis.call('SET', string.format('lock/%05d', i), 'anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'PX', 600000)
  redis.call('SET', string.format('lock/data/%05d', i), 'not a lock', 'PX', 600000)
end`

func TestTheCommandListsLocksOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	t.Run("thousands of keys", func(t *testing.T) { c.testListThousands(t) })
	t.Run("a prefix with characters of a pattern", func(t *testing.T) { c.testListGlob(t) })
	t.Run("a frozen node, then a second one", func(t *testing.T) { c.testListFrozen(t) })
}

type listedName struct {
	Name, State, Owner string
	Fence              int64
	LeftMS             int64 `json:"left_ms"`
}

// list returns the names that redlock list prints.
func (c command) list(t *testing.T, status int, args ...string) []listedName {
	t.Helper()
	got, out, said := c.served(t, append([]string{"list", "--json"}, args...)...)
	require.Equal(t, status, got, said)
	var l struct {
		Complete bool
		Names    []listedName
	}
	require.NoError(t, json.Unmarshal([]byte(out), &l), "%s", out)
	assert.Equal(t, status == 0, l.Complete)
	assert.NotContains(t, out, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return l.Names
}

func (c command) testListThousands(t *testing.T) {
	t.Helper()
	late.LeaveOut(t, "each page of a scan waits for the late node")
	const n = 2000
	for _, node := range c.nodes {
		node.Do(t, "EVAL", fill, 0, n)
	}
	names := c.list(t, 0, "--limit", "2000", "lock/")
	require.Len(t, names, n)
	assert.Equal(t, "lock/00001", names[0].Name)
	assert.Equal(t, "lock/02000", names[n-1].Name)
	assert.Equal(t, "anna", names[n-1].Owner)
	assert.Len(t, c.list(t, exitFailed, "--limit", "10"), 10)
	for _, node := range c.nodes {
		node.Do(t, "FLUSHALL")
	}
}

func (c command) testListGlob(t *testing.T) {
	t.Helper()
	odd := []string{`a*b`, `a?b`, `a[b]c`, `a[^b`, `a\b`, `a\*b`, "größe"}
	for _, name := range append(odd, "axb", "abc", "a b") {
		for _, node := range c.nodes {
			node.Do(t, "SET", name, "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", "PX", 600_000)
		}
	}
	for _, name := range odd {
		names := c.list(t, 0, "--", name)
		require.Len(t, names, 1, name)
		assert.Equal(t, name, names[0].Name)
	}
	for _, node := range c.nodes {
		node.Do(t, "FLUSHALL")
	}
}

func (c command) testListFrozen(t *testing.T) {
	t.Helper()
	r := c.start(t, words([]string{"run", "--owner", "me", "job"}, holdOn...)...)
	r.line(t)
	heldEverywhere(t, c.nodes, "job")
	c.nodes[0].Pause(t)
	names := c.list(t, 0)
	require.Len(t, names, 1)
	assert.Equal(t, "held", names[0].State)
	assert.Equal(t, "me", names[0].Owner)
	assert.Positive(t, names[0].Fence)
	assert.Positive(t, names[0].LeftMS)
	c.nodes[1].Pause(t)
	status, out, said := c.call(t, "list")
	assert.Equal(t, exitUnavailable, status)
	assert.Empty(t, out)
	for _, n := range c.nodes[:2] {
		assert.Contains(t, said, n.Addr(), fmt.Sprint("the message names every node that failed: ", said))
		n.Unpause(t)
	}
	require.NoError(t, r.in.Close())
	r.exit(t)
	redistest.NoKeys(t, c.nodes, 35*time.Second)
}

func TestTheCommandBreaksALockOnRealServers(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	await(t, "a quorum confirms the deletion in time", func() bool { return c.testBreak(t) })

	c.nodes[0].Kill(t)
	c.nodes[1].Kill(t)
	c.nodes[2].Do(t, "SET", "job", "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", "PX", 600_000)
	status, out, said := c.call(t, "break", "--yes", "job")
	assert.Equal(t, exitUnavailable, status, said)
	assert.Empty(t, out)
	assert.Len(t, c.nodes[2].Keys(t, "job"), 1)
	c.nodes[2].Do(t, "DEL", "job")
}

// testBreak breaks a lock for which another process waits. It returns false if the machine stopped, so that the
// command could not tell whether it broke the lock. A second command might break the waiter's lock.
func (c command) testBreak(t *testing.T) bool {
	t.Helper()
	holder := c.start(t, words([]string{"run", "--ttl", "24s", "--owner", "me", "job"}, holdOn...)...)
	holder.line(t)
	heldEverywhere(t, c.nodes, "job")
	fence := c.list(t, 0)[0].Fence
	waiter := c.start(t, words([]string{"run", "--wait", "1m", "--owner", "next", "job"}, holdOn...)...)
	for _, n := range c.nodes {
		await(t, "the waiter listens for releases", func() bool {
			channels, err := redis.Strings(n.Do(t, "PUBSUB", "CHANNELS", "redlock:free:job"), nil)
			require.NoError(t, err)
			return len(channels) == 1
		})
	}

	var status int
	var out, said string
	unsure := false
	await(t, "the command has a quorum", func() bool { // as in served
		began := time.Now()
		status, out, said = c.call(t, "break", "--yes", "job")
		if status != exitUnavailable {
			return true
		}
		require.GreaterOrEqual(t, time.Since(began), nodeTimeout, said)
		unsure = strings.Contains(said, "not surely broken") // otherwise nothing was deleted
		return unsure
	})
	if unsure {
		require.NoError(t, holder.in.Close())
		holder.exit(t)
		waiter.line(t)
		require.NoError(t, waiter.in.Close())
		waiter.exit(t)
		redistest.NoKeys(t, c.nodes, time.Second)
		return false
	}
	require.Zero(t, status, said)
	assert.Regexp(t, `^job is broken\. Its holder, "me" \(id [0-9a-f]{24}\), may believe for \S+ more`, out)
	assert.Equal(t, "job", strings.Fields(waiter.line(t))[0], "the waiter gets the lock")
	names := c.list(t, 0)
	require.Len(t, names, 1)
	assert.Equal(t, "next", names[0].Owner)
	assert.Greater(t, names[0].Fence, fence)

	// The broken holder ends at its next extension, with the status of a loss.
	status, _ = holder.exit(t)
	assert.Equal(t, exitLost, status, "%s", &holder.stderr)
	require.NoError(t, waiter.in.Close())
	status, _ = waiter.exit(t)
	assert.Zero(t, status, "%s", &waiter.stderr)
	redistest.NoKeys(t, c.nodes, time.Second)
	return true
}

func TestTheDoctorHasCuresOnRealServers(t *testing.T) {
	late.LeaveOut(t, "it needs the error of a dial that the server refuses, and the proxy of a late node accepts it")
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	nodes[0].Kill(t)
	await(t, "the engine's proxy refuses connections, too", func() bool {
		_, err := net.Dial("tcp", nodes[0].Addr())
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	nodes[1].Pause(t)
	nodes[2].Do(t, "CONFIG", "SET", "requirepass", "secret")
	var status int
	var out, said, text string
	await(t, "the first and the third node answer in time", func() bool {
		status, out, said = c.call(t, "doctor")
		text = strings.Join(strings.Fields(out), " ")
		const late = "/0 could not be examined: no answer within"
		return !strings.Contains(text, nodes[0].Addr()+late) && !strings.Contains(text, nodes[2].Addr()+late)
	})
	nodes[1].Unpause(t)
	assert.Equal(t, exitFailed, status, said)
	assert.Contains(t, text, nodes[0].Addr()+"/0 could not be examined: connection refused: no server listens there")
	assert.Contains(t, text, nodes[1].Addr()+"/0 could not be examined: no answer within 2s: its process may be frozen")
	assert.Contains(t, text, nodes[2].Addr()+"/0 could not be examined: NOAUTH Authentication required: put the user's password into the node's URL")
	assert.True(t, strings.HasSuffix(out, "0 of 3 can vote, 2 needed: locks can't be taken\n"), out)
}
