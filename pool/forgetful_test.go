package pool

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// warnings are the lines of a log about nodes that may forget locks.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *warnings) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *warnings) lines() (found []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.text.String()) {
		if strings.Contains(line, "may forget locks") {
			found = append(found, line)
		}
	}
	return found
}

// acquireAs has a Locker with that node set use the node.
func acquireAs(t *testing.T, n *Node, s *command.NodeSet, key string) command.Reply {
	t.Helper()
	c := acquiring("A", longTTL, key)
	c.req.NodeSet = s
	return c.on(n).reply(t)
}

func TestANodeThatMayForgetLocksIsLoggedOnce(t *testing.T) {
	var log warnings
	inBubble(t, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		require.Empty(t, log.lines(), "no Locker uses the node")
		for _, s := range []*command.NodeSet{command.NewNodeSet(false), command.NewNodeSet(false)} {
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
				acquireAs(t, n, s, key)
			}
			m.Stop()
			time.Sleep(time.Second)
			require.NoError(t, m.Restart(true))
			time.Sleep(time.Second)
		}
		require.Len(t, log.lines(), 1)
		for _, words := range []string{"level=WARN", "node=n1", "WithRestartGuard", "appendonly yes and appendfsync always"} {
			require.Contains(t, log.lines()[0], words)
		}
	})
}

func TestANodeIsNotLoggedIfItsLocksAreSafeOrItCanNotTell(t *testing.T) {
	guarded := command.NewNodeSet(false)
	guarded.Guard = guard.New(time.Minute, []string{"n1"})
	for name, test := range map[string]struct {
		prepare func(m *fakeredis.Master)
		set     *command.NodeSet
	}{
		"the restart guard":         {func(*fakeredis.Master) {}, guarded},
		"an append-only file":       {func(m *fakeredis.Master) { m.SetInfo("aof_enabled", "1") }, command.NewNodeSet(false)},
		"no right to INFO":          {func(m *fakeredis.Master) { m.Deny("INFO") }, command.NewNodeSet(false)},
		"no right to INFO, unsafe":  {func(m *fakeredis.Master) { m.Deny("INFO") }, command.NewNodeSet(false, "n1")},
		"whoever needs no checking": {func(*fakeredis.Master) {}, command.NewNodeSet(true)},
	} {
		t.Run(name, func(t *testing.T) {
			var log warnings
			onMaster(t, test.prepare, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
				acquireAs(t, n, test.set, "a")
				require.Empty(t, log.lines())
			})
		})
	}
}

func TestAWrappedPoolsNodeThatMayForgetLocksIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log warnings
		m := fakeredis.New("n1")
		defer m.Close()
		service := servicePool(m)
		defer service.Close()
		n, err := Wrap(service, Config{Name: "wrapped", Clock: clock.Runtime(), Logger: log.logger()})
		require.NoError(t, err)
		defer n.Close()
		require.Equal(t, command.Granted, acquireAs(t, n, command.NewNodeSet(false), "a").Outcome)
		require.Len(t, log.lines(), 1)
	})
}

// The guard is not possible on a Cluster, so it is no remedy.
func TestAClusterWhoseMastersMayForgetLocksIsLoggedOnce(t *testing.T) {
	var log warnings
	inCluster(t, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, _ *fakeredis.Cluster, n *Node) {
		s := command.NewNodeSet(false)
		for _, key := range []string{"foo", "bar", "orders", "x"} {
			require.Equal(t, command.Granted, acquireAs(t, n, s, key).Outcome)
		}
		require.Len(t, log.lines(), 1)
		require.Contains(t, log.lines()[0], "node=n1")
		require.NotContains(t, log.lines()[0], "WithRestartGuard")
	})
}
