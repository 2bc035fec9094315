package redistest_test

import (
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
)

// held sends requests of six clients to a node, and returns how many took as long as the shortest delay.
func held(t *testing.T, n *redistest.Node) (held int) {
	t.Helper()
	for range 6 {
		c, err := redis.Dial("tcp", n.Addr())
		require.NoError(t, err)
		began := time.Now()
		_, err = c.Do("SET", "k", "v")
		require.NoError(t, err)
		if time.Since(began) >= 200*time.Millisecond {
			held++
		}
		require.NoError(t, c.Close())
	}
	return held
}

func TestOneOfThreeNodesSeesRequestsLateIfThereIsASeed(t *testing.T) {
	t.Setenv(late.Variable, "1")
	nodes := redistest.Start(t, 3)
	check := redistest.NoGoroutines(t)
	drawn := late.Of(t, 3)
	i := slices.IndexFunc(nodes, (*redistest.Node).Proxied)
	for j, n := range nodes {
		require.Equal(t, j == i, drawn.Is(j))
		require.Equal(t, j == i, n.Proxied())
	}
	n := nodes[i]
	assert.Positive(t, held(t, n))

	addr := n.Addr()
	n.Kill(t)
	awaitDialFails(t, addr, syscall.ECONNRESET)
	n.Restart(t)
	assert.Equal(t, addr, n.Addr())
	assert.Positive(t, held(t, n))
	check()
}

func TestNoNodeIsLateWithoutASeedAndNoneOfTwo(t *testing.T) {
	t.Setenv(late.Variable, "")
	assert.False(t, slices.ContainsFunc(redistest.Start(t, 3), (*redistest.Node).Proxied))
	t.Setenv(late.Variable, "1")
	assert.False(t, slices.ContainsFunc(redistest.Start(t, 2), (*redistest.Node).Proxied))
}

func TestALateServerIsLikeANewOneForTheNextTest(t *testing.T) {
	t.Setenv(late.Variable, "1")
	var before []*redistest.Node
	var addrs []string
	t.Run("first", func(t *testing.T) {
		before = redistest.Start(t, 3)
		for _, n := range before {
			addrs = append(addrs, n.Addr())
		}
		for _, n := range before {
			held(t, n)
		}
	})
	t.Setenv(late.Variable, "")
	changed := 0
	for i, n := range before {
		if n.Addr() != addrs[i] {
			changed++
			_, err := net.Dial("tcp", addrs[i])
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "no proxy outlives its test")
		}
	}
	assert.Equal(t, 1, changed)
	assert.ElementsMatch(t, before, redistest.Start(t, 3))
}

// What needs several round trips before the first command is not held.
func TestAHandshakeIsNotHeld(t *testing.T) {
	drawn := 0
	hour := func() time.Duration { drawn++; return time.Hour }
	hold := redistest.AfterHandshake(hour)
	for _, s := range []struct {
		written string
		by      time.Duration
	}{
		{"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\na\r\n", 0},
		{"*2\r\n$6\r\nclient\r\n$2\r\nID\r\n*1\r\n$4\r\nINFO\r\n*1\r\n$4\r\nTIME\r\n", 0},
		{"*1\r\n$4\r\nPING\r\n", time.Hour},
		{"*1\r\n$4\r\nINFO\r\n", time.Hour}, // later requests are
	} {
		assert.Equal(t, s.by, hold([]byte(s.written)), s.written)
	}
	assert.Equal(t, 1, drawn)
	assert.Equal(t, time.Hour, redistest.AfterHandshake(hour)([]byte("PING\r\n")))
}
