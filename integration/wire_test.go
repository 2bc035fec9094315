package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// monitor returns what a server receives from now on, one command a string, including the commands
// of its scripts. It leaves out the commands of the test itself.
func monitor(t *testing.T, n *redistest.Node) (stop func() []string) {
	t.Helper()
	c := admin(t, n)
	do(t, c, "MONITOR")
	var seen []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := redis.String(c.Receive())
			if err != nil || strings.Contains(line, `"end of the test"`) {
				return
			}
			seen = append(seen, line)
		}
	}()
	return func() []string {
		n.Do(t, "ECHO", "end of the test")
		<-done
		return seen
	}
}

// commands returns the commands of the client among those.
func commands(given []string) (cmds []string) {
	for _, line := range given {
		_, cmd, _ := strings.Cut(line, "] ")
		if !strings.Contains(line, " lua] ") {
			cmds = append(cmds, cmd)
		}
	}
	return cmds
}

func TestALockIsOneSetAndOneScriptOnEveryNode(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes, redlock.WithOwner("me"), redlock.WithKeyPrefix("lock/"))
	answered(t, l)
	// A connection loads the scripts once, before their first use. A node to which the acquire was not
	// sent gets no release.
	before := acquired(t, l, "before", 45*time.Second)
	heldEverywhere(t, nodes, "lock/before")
	released(t, before)
	redistest.NoKeys(t, nodes, time.Second)
	given := make([]func() []string, len(nodes))
	for i, n := range nodes {
		given[i] = monitor(t, n)
	}
	k := acquired(t, l, "x", 45*time.Second)
	heldEverywhere(t, nodes, "lock/x")
	token := k.Token()
	released(t, k)
	redistest.NoKeys(t, nodes, time.Second)
	for i := range nodes {
		cmds := commands(given[i]())
		var ours []string
		for _, cmd := range cmds {
			// The test itself sends KEYS and EXISTS, and every 10 s the node's check sends INFO.
			if word, _, _ := strings.Cut(cmd, " "); !slices.Contains([]string{`"KEYS"`, `"EXISTS"`, `"INFO"`}, word) {
				ours = append(ours, cmd)
			}
		}
		require.Len(t, ours, 2, "node %d", i)
		assert.Equal(t, fmt.Sprintf(`"SET" "lock/x" "%s" "NX" "PX" "45000"`, token), ours[0])
		assert.Regexp(t, fmt.Sprintf(`^"EVALSHA" "[0-9a-f]{40}" "1" "lock/x" "%s" "0" "0"$`, token), ours[1])
	}
	assert.Regexp(t, `^me:\S{26,}$`, token)
}

func TestTheKeyIsTheNameAndTheValueIsTheToken(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for what, acquire := range map[string]func() (*redlock.Lock, error){
		"one":     func() (*redlock.Lock, error) { return l.TryAcquire(t.Context(), "x", 20*time.Second) },
		"several": func() (*redlock.Lock, error) { return l.TryAcquireAll(t.Context(), []string{"y", "x"}, 20*time.Second) },
	} {
		k, err := acquire()
		require.NoError(t, err, what)
		heldEverywhere(t, nodes, k.Names()...)
		for _, n := range nodes {
			require.Len(t, n.Keys(t, "*"), len(k.Names()), what)
			for _, name := range k.Names() {
				value, err := redis.String(n.Do(t, "GET", name), nil)
				require.NoError(t, err, what)
				assert.Equal(t, k.Token(), value, what)
				ttl, err := redis.Int64(n.Do(t, "PTTL", name), nil)
				require.NoError(t, err, what)
				assert.LessOrEqual(t, ttl, int64(20_000), what)
				assert.Greater(t, ttl, int64(10_000), what)
			}
		}
		released(t, k)
		releasedEverywhere(t, nodes, k.Names()...)
		for _, n := range nodes {
			require.Empty(t, n.Keys(t, "*"), what)
		}
	}
}

// byTheBook is a client as in the Redis documentation, and similar to other libraries.
type byTheBook struct {
	t     *testing.T
	nodes []*redistest.Node
	token string
}

const releaseByTheBook = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (c byTheBook) acquire(name string, ttl time.Duration) bool {
	c.t.Helper()
	won := 0
	for _, n := range c.nodes {
		if n.Do(c.t, "SET", name, c.token, "NX", "PX", ttl.Milliseconds()) != nil {
			won++
		}
	}
	if won > len(c.nodes)/2 {
		return true
	}
	c.release(name)
	return false
}

func (c byTheBook) release(name string) (deleted int64) {
	c.t.Helper()
	for _, n := range c.nodes {
		did, err := redis.Int64(n.Do(c.t, "EVAL", releaseByTheBook, 1, name, c.token), nil)
		require.NoError(c.t, err)
		deleted += did
	}
	return deleted
}

func TestADocumentedClientAndOursExcludeEachOther(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	other := byTheBook{t, nodes, "somebody-else"}

	require.True(t, other.acquire("x", time.Minute))
	_, err := l.TryAcquire(t.Context(), "x", time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	var held *redlock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Empty(t, held.Owner, "a value that is not our token has no owner")
	_, err = l.TryAcquireAll(t.Context(), []string{"w", "x"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	done := acquireLater(t.Context(), l, "x")
	assert.Equal(t, int64(3), other.release("x"), "no other client has deleted the key")
	got := <-done
	require.NoError(t, got.err)

	assert.False(t, other.acquire("x", time.Minute))
	require.NoError(t, got.lock.Check(t.Context()), "the other client has not deleted our key")
	released(t, got.lock)
	require.True(t, other.acquire("x", time.Minute), "a release frees the lock at once, on a majority")
	other.release("x")
	redistest.NoKeys(t, nodes, time.Second)
}

func TestServersThatForgotTheScriptsReceiveThemAgain(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for what, ask := range map[string]func(k *redlock.Lock) error{
		"extend":  func(k *redlock.Lock) error { return k.Extend(t.Context(), 2*time.Minute) },
		"check":   func(k *redlock.Lock) error { return k.Check(t.Context()) },
		"release": func(k *redlock.Lock) error { return k.Release(t.Context()) },
		"acquire several": func(*redlock.Lock) error {
			all, err := l.TryAcquireAll(t.Context(), []string{"y", "z"}, time.Minute)
			if err != nil {
				return err
			}
			return all.Release(t.Context())
		},
	} {
		k := acquired(t, l, "x", time.Minute)
		for _, n := range nodes {
			n.Do(t, "SCRIPT", "FLUSH")
		}
		require.NoError(t, ask(k), what)
		require.NoError(t, k.Release(t.Context()), what)
		redistest.NoKeys(t, nodes, time.Second)
	}
}
