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

func TestANodeThatMayForgetLocksIsLoggedOnce(t *testing.T) {
	var log warnings
	inBubble(t, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.Empty(t, log.lines(), "no Locker uses the node")
		join(n, command.Membership{})
		for range 2 {
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
				acquiring("A", longTTL, key).On(n).Reply(t)
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
	for name, test := range map[string]struct {
		prepare func(m *fakeredis.Master)
		member  command.Membership
	}{
		"the restart guard":         {func(*fakeredis.Master) {}, command.Membership{Guard: guardSettings()}},
		"an append-only file":       {func(m *fakeredis.Master) { m.SetInfo("aof_enabled", "1") }, command.Membership{}},
		"no right to INFO":          {func(m *fakeredis.Master) { m.Deny("INFO") }, command.Membership{}},
		"no right to INFO, unsafe":  {func(m *fakeredis.Master) { m.Deny("INFO") }, command.Membership{Unsafe: true}},
		"whoever needs no checking": {func(*fakeredis.Master) {}, command.Membership{Unsafe: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var log warnings
			onMaster(t, test.prepare, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, _ *fakeredis.Master, n *Node) {
				join(n, test.member)
				acquiring("A", longTTL, "a").On(n).Reply(t)
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
		join(n, command.Membership{})
		require.Equal(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n))
		require.Len(t, log.lines(), 1)
	})
}

// The guard is not possible on a Cluster, so it is no remedy.
func TestAClusterWhoseMastersMayForgetLocksIsLoggedOnce(t *testing.T) {
	var log warnings
	inCluster(t, func(c *Config) { c.Logger = log.logger() }, func(t *testing.T, _ *fakeredis.Cluster, n *Node) {
		join(n, command.Membership{})
		for _, key := range []string{"foo", "bar", "orders", "x"} {
			require.Equal(t, command.Granted, acquiring("A", longTTL, key).Outcome(t, n))
		}
		require.Len(t, log.lines(), 1)
		require.Contains(t, log.lines()[0], "node=n1")
		require.NotContains(t, log.lines()[0], "WithRestartGuard")
	})
}
