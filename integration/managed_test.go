package integration

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// These tests show what docs/dev/managed.md says of services that are not available here.

// Managed services remove the commands of administrators. Their names are unknown then, as on such a server.
func TestTheCommandsOfAdministratorsAreNotNeeded(t *testing.T) {
	var args []string
	for _, name := range []string{
		"ACL", "BGREWRITEAOF", "BGSAVE", "CLIENT", "CONFIG", "DEBUG", "LASTSAVE", "LATENCY", "MEMORY", "MODULE", "MONITOR",
		"PSYNC", "REPLICAOF", "SAVE", "SHUTDOWN", "SLAVEOF", "SLOWLOG", "SYNC",
	} {
		args = append(args, "--rename-command", name, "x-"+name)
	}
	nodes := masters(t, 3, args...)
	l, other := open(t, nodes, redlock.WithFencing()), open(t, nodes, redlock.WithFencing())
	for _, n := range nodes {
		for _, name := range []string{"CLIENT", "CONFIG"} {
			_, err := n.Try(name, "HELP")
			require.ErrorContains(t, err, "unknown command", "the control")
		}
	}

	lock := acquired(t, l, "invoice/42", time.Minute, redlock.WithAutoExtend())
	require.Positive(t, lock.Fence())
	next := make(chan *redlock.Lock)
	go func() {
		k, err := other.Acquire(t.Context(), "invoice/42", time.Minute)
		assert.NoError(t, err)
		next <- k
	}()
	require.NoError(t, lock.Extend(t.Context(), time.Minute))
	confirmed(t, lock)
	released(t, lock)
	second := <-next
	require.NotNil(t, second)
	require.Greater(t, second.Fence(), lock.Fence())
	released(t, second)

	report := examined(t, l)
	require.False(t, report.Failed(), "%+v", report)
}

// lines has the log of connections, as "LEVEL message".
type lines struct {
	slog.Handler
	mu  sync.Mutex // guards all
	all []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Level.String()+" "+strings.TrimPrefix(r.Message, "redlock node: "))
	return nil
}

func (l *lines) count(line string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one == line {
			n++
		}
	}
	return n
}

// Services and the proxies before them close idle connections after some minutes. The library checks a node every ten
// seconds, so a server closes its connections here after two. It does so only until the next dial, which may take as
// long on a busy machine.
func TestAServerThatClosesIdleConnectionsIsNothingToWarnOf(t *testing.T) {
	nodes := masters(t, 3, "--timeout", "0")
	log := &lines{}
	closeIdle := func(n *redistest.Node, seconds int) error {
		_, err := n.Try("CONFIG", "SET", "timeout", seconds)
		return err
	}
	l, _ := openPools(t, nodes, func(cfg *pool.Config) {
		cfg.Logger = slog.New(log)
		cfg.DialTimeout = patience // with the command of the test
		n := nodes[slices.IndexFunc(nodes, func(n *redistest.Node) bool { return n.Addr() == cfg.Address })]
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := closeIdle(n, 0); err != nil {
				return nil, err
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	})
	released(t, acquired(t, l, "invoice/42", time.Minute))
	answered(t, l)
	ended, failed := log.count("WARN connection ended"), log.count("WARN dial failed") // a stopped process may have owed a reply
	for _, n := range nodes {
		require.NoError(t, closeIdle(n, 2))
	}
	await(t, "each server closes its connection, once", func() bool { return log.count("INFO connection ended") >= len(nodes) })
	assert.Equal(t, ended, log.count("WARN connection ended"))
	assert.Equal(t, failed, log.count("WARN dial failed"))
	released(t, acquired(t, l, "invoice/42", time.Minute))
}

// The name of an endpoint leads to a new primary, while connections to the old one live: they end when the service
// makes that one a replica.
func TestAnEndpointMovesToANewPrimary(t *testing.T) {
	nodes, successor := masters(t, 3), masters(t, 1)[0]
	follow(t, successor, nodes[0])
	var moved atomic.Bool
	l, pools := openPools(t, nodes, func(cfg *pool.Config) {
		if cfg.Address != nodes[0].Addr() {
			return
		}
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if moved.Load() {
				address = successor.Addr()
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	})
	lock := acquired(t, l, "invoice/42", time.Minute)
	heldEverywhere(t, nodes, "invoice/42")

	successor.Do(t, "REPLICAOF", "NO", "ONE")
	moved.Store(true)
	follow(t, nodes[0], successor)
	nodes[0].Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	began := time.Now()
	await(t, "the new primary votes", func() bool {
		k, err := l.TryAcquire(t.Context(), "other", time.Minute)
		if err != nil {
			return false
		}
		defer func() { released(t, k) }()
		answered(t, l)
		n, err := successor.Try("EXISTS", "other")
		return err == nil && n == int64(1)
	})
	t.Logf("after %v; %d dials", time.Since(began).Round(time.Millisecond), pools[0].Stats().Dials)
	confirmed(t, lock)
	released(t, lock)
	releasedEverywhere(t, append(nodes[1:], successor), "invoice/42")
}
