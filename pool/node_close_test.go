package pool

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// tlsPipe returns a connection for TLS.
func tlsPipe() (client, server *pipenet.Conn) { return pipenet.Pipe("client", "n1:6379") }

func TestCloseAnswersEverythingThatIsUnderWay(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		sent, sentUndo := acquiring("A", longTTL, "k").On(n), releasing("A", "k").On(n)
		synctest.Wait()
		stuck := stuff(n)
		queued, queuedUndo := acquiring("B", longTTL, "k").On(n), releasing("B", "k").On(n)
		require.NoError(t, n.Close())

		for _, c := range []*call{sent, sentUndo, stuck} {
			r := c.Reply(t)
			require.Equal(t, command.Unknown, r.Outcome)
			require.ErrorIs(t, r.Err, ErrClosed)
		}
		after, afterUndo := pinging().On(n), releasing("C", "k").On(n)
		for _, c := range []*call{queued, queuedUndo, after, afterUndo} {
			r := c.Reply(t)
			requireUnsent(t, r)
			require.ErrorIs(t, r.Err, ErrClosed)
		}
		require.NoError(t, n.Close(), "more than once")
		require.Zero(t, n.Stats().Connected)
		require.Zero(t, n.Stats().Queued)
	})
}

// docs/dev/hazards.md H104: virtual time does not advance while Close works, and the bubble fails
// if a goroutine is left.
func TestCloseDoesNotWaitForAFrozenMaster(t *testing.T) {
	for state, burden := range map[string]func(n *Node){
		"idle":                 func(*Node) {},
		"an answer is owed":    func(n *Node) { acquiring("A", longTTL, "k").On(n) },
		"the buffers are full": func(n *Node) { stuffAll(n) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := fakeredis.New("n1")
			defer m.Close()
			for kind, open := range frozenKinds(t, m) {
				n := open()
				require.Equal(t, command.Granted, pinging().Outcome(t, n), kind)
				m.Freeze()
				burden(n)
				synctest.Wait()
				began := time.Now()
				require.NoError(t, n.Close())
				require.Zero(t, time.Since(began), "%s, %s", kind, state)
				m.Unfreeze()
				synctest.Wait()
				require.Zero(t, m.Connections(), "%s, %s", kind, state)
			}
		})
	}
}

// stuffAll fills the connection and everything in front of the master until the writer is stuck,
// and leaves more in the queue.
func stuffAll(n *Node) {
	for range 4 {
		_ = voterOf(n).Submit(&inspecting(strings.Repeat("x", 5*pipenet.Buffer)).Command, nil)
	}
	synctest.Wait()
}

// A dial that is under way, in any phase, does not delay Close either.
func TestCloseDoesNotWaitForADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		for kind, open := range frozenKinds(t, m) {
			m.Freeze()
			n := open()
			synctest.Wait()
			c := acquiring("A", longTTL, "k").On(n)
			began := time.Now()
			require.NoError(t, n.Close())
			require.Zero(t, time.Since(began), kind)
			requireUnsent(t, c.Reply(t))
			m.Unfreeze()
			synctest.Wait()
			require.Zero(t, m.Connections(), kind)
		}
	})
}

// stuckConn is a connection to a real socket that reports a write of more than socketBuffers.
type stuckConn struct {
	net.Conn
	stuck chan<- struct{}
}

// socketBuffers is more than the kernel holds for a peer that reads nothing.
const socketBuffers = 12 << 20

func (c stuckConn) Write(p []byte) (int, error) {
	if len(p) > socketBuffers {
		c.stuck <- struct{}{}
	}
	return c.Conn.Write(p)
}

// The same over real sockets, in real time. Without the raw connection's Close it would take the hard
// timeout, or forever.
func TestCloseOfANodeOnRealSocketsIsQuick(t *testing.T) {
	for kind, encrypted := range map[string]bool{"TCP": false, "TLS": true} {
		t.Run(kind, func(t *testing.T) {
			m, err := fakeredis.Start("n1")
			require.NoError(t, err)
			defer m.Close()
			a, stuck := newAuthority(t), make(chan struct{}, 1)
			c := unhurried(Config{Address: m.Addr()})
			if encrypted {
				c.Address, c.TLS = a.before(t, m.Addr()).String(), a.trusted
			}
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, network, address)
				return stuckConn{conn, stuck}, err
			}
			n, err := Open(c)
			require.NoError(t, err)
			defer n.Close()
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.Freeze()
			call := inspecting(strings.Repeat("x", 2*socketBuffers)).On(n)
			<-stuck
			began := time.Now()
			require.NoError(t, n.Close())
			require.Less(t, time.Since(began), node.MaxWait/5)
			require.Equal(t, command.Unknown, call.Reply(t).Outcome)
		})
	}
}

func TestNoGoroutineIsLeftOfNodesThatCameAndWent(t *testing.T) {
	before := runtime.NumGoroutine() // those of earlier tests have ended: see accepting
	m, err := fakeredis.Start("n1")
	require.NoError(t, err)
	for range 20 {
		n := opened(t, m, func(c *Config) { *c = unhurried(Config{Address: c.Address}) })
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		require.NoError(t, n.Close())
	}
	m.Close()
	for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}

// Each command is answered once, in whatever order Close, submissions and the end of the connection
// occur.
func TestCloseRacesWithSubmissionsAndTheEndOfTheConnection(t *testing.T) {
	for range 10 {
		overTCP(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			var g sync.WaitGroup
			calls := make([][]*call, 8)
			begin := make(chan struct{})
			for i := range calls {
				g.Go(func() {
					<-begin
					for j := range 20 {
						token := string(rune('a'+i)) + string(rune('0'+j))
						c := acquiring(token, longTTL, token).On(n)
						calls[i] = append(calls[i], c, releasing(token, token).On(n))
					}
				})
			}
			g.Go(func() {
				<-begin
				for _, c := range m.Clients() {
					c.Drop()
				}
			})
			g.Go(func() {
				<-begin
				runtime.Gosched()
				_ = n.Close()
			})
			close(begin)
			g.Wait()
			for _, some := range calls {
				for _, c := range some {
					c.Reply(t)
				}
			}
		})
	}
}

// The caller would otherwise take the end of its node for a fault of the server.
func TestACommandThatWaitsForADialHearsThatTheNodeWasClosed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.Freeze()
		time.Sleep(2 * time.Second)
		only(t, m).Drop()
		synctest.Wait()
		c := pinging().On(n)
		require.True(t, c.Pending())
		require.NoError(t, n.Close())
		require.ErrorIs(t, c.Reply(t).Err, ErrClosed)
	})
}
