package examine

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

const (
	freeKey = KeyPrefix + "test"
	longTTL = 30 * time.Second
)

// inBubble runs a test on a node and its master in virtual time. The bubble fails if a goroutine is
// left.
func inBubble(t *testing.T, change func(c *pool.Config), f func(t *testing.T, m *fakeredis.Master, n *pool.Node)) {
	t.Helper()
	onMaster(t, func(*fakeredis.Master) {}, change, f)
}

// onMaster is inBubble with a master that is prepared before the node is opened.
func onMaster(
	t *testing.T, prepare func(m *fakeredis.Master), change func(c *pool.Config),
	f func(t *testing.T, m *fakeredis.Master, n *pool.Node),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		prepare(m)
		cfg := pool.Config{Name: "n1", Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()}
		if change != nil {
			change(&cfg)
		}
		n, err := pool.Open(cfg)
		require.NoError(t, err)
		defer n.Close()
		f(t, m, n)
	})
}

// question is a plain one, unless change makes it another.
func question(change func(q *Question)) *Question {
	q := &Question{Key: freeKey, Timeout: 5 * time.Second, Clock: clock.Runtime()}
	if change != nil {
		change(q)
	}
	return q
}

func guarded(q *Question) { q.Guard = guardSettings() }

func guardSettings() *guard.Settings { return guard.New(time.Second, []string{"n1", "n2", "n3"}) }

// examined examines a node, which must be possible.
func examined(t *testing.T, n *pool.Node, change func(q *Question)) *Diagnosis {
	t.Helper()
	e, err := question(change).Node(t.Context(), n)
	require.NoError(t, err)
	return e
}

// why returns why a node can't be examined within a time.
func why(t *testing.T, n *pool.Node, within time.Duration) error {
	t.Helper()
	_, err := question(func(q *Question) { q.Timeout = within }).Node(t.Context(), n)
	require.Error(t, err)
	return err
}

// codes lists the codes of the findings, with their grades.
func codes(all []Finding) (list []string) {
	for _, f := range all {
		list = append(list, string(f.Grade)+" "+f.Code)
	}
	return list
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// inCluster runs a test on a node that is a Cluster of three masters.
func inCluster(t *testing.T, prepare func(cl *fakeredis.Cluster), f func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		if prepare != nil {
			prepare(cl)
		}
		n, err := pool.Open(pool.Config{Name: "n1", Dial: refusing(cl.Dial), Clock: clock.Runtime(), Kind: &cluster.Config{Addresses: cl.Addresses()[:1]}})
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		f(t, cl, n)
	})
}

// unreached is an address of the documentation range, where nothing listens.
const unreached = "192.0.2.1:7000"

// refusing dials as dial, but for unreached.
func refusing(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == unreached {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return dial(ctx, network, address)
	}
}

// sentinels are three Sentinels that name the master a, beside another one.
type sentinels struct {
	a, b *fakeredis.Master
	all  []*fakeredis.Sentinel
}

// maxAge is that of their answers.
const maxAge = 5 * time.Second

// behindSentinels runs a test on a node that follows that many of them.
func behindSentinels(t *testing.T, followed int, f func(t *testing.T, s *sentinels, n *pool.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSentinels(t)
		n, err := pool.Open(s.config(followed))
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		f(t, s, n)
	})
}

// newSentinels makes them and the masters.
func newSentinels(t *testing.T) *sentinels {
	t.Helper()
	s := &sentinels{a: fakeredis.New("a"), b: fakeredis.New("b")}
	t.Cleanup(s.a.Close)
	t.Cleanup(s.b.Close)
	for i := range 3 {
		one := fakeredis.NewSentinel(fmt.Sprintf("s%d", i+1), 2)
		t.Cleanup(one.Close)
		one.SetMaster("m", s.a.Addr())
		s.all = append(s.all, one)
	}
	return s
}

// config is that of a node that follows that many of them.
func (s *sentinels) config(followed int) pool.Config {
	of := &sentinel.Config{Master: "m", MaxAge: maxAge}
	for _, one := range s.all[:followed] {
		of.Addresses = append(of.Addresses, one.Addr())
	}
	return pool.Config{Name: "n1", Dial: s.dial, Clock: clock.Runtime(), Kind: of}
}

// dial connects to the server that has the address.
func (s *sentinels) dial(ctx context.Context, network, address string) (net.Conn, error) {
	servers := []*fakeredis.Master{s.a, s.b}
	for _, one := range s.all {
		servers = append(servers, one.Master)
	}
	for _, m := range servers {
		if m.Addr() == address {
			return m.Dial(ctx, network, address)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
}
