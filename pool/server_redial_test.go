package pool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/internal/pipenet"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// gated dials only when the test allows it.
type gated struct {
	dial func(context.Context, string, string) (net.Conn, error)
	gate chan error // the result of a dial; nil: it succeeds
}

func (g *gated) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case err := <-g.gate:
		if err != nil {
			return nil, err
		}
		return g.dial(ctx, network, address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inGatedBubble is inBubble with a node whose dials wait for the test.
func inGatedBubble(t *testing.T, f func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error)) {
	t.Helper()
	g := &gated{}
	inBubble(t, func(c *Config) {
		g.dial, g.gate = c.Dial, make(chan error)
		c.Dial = g.Dial
	}, func(t *testing.T, m *fakeredis.Master, n *Node) { f(t, m, n, g.gate) })
}

func TestCommandsWaitForTheFirstDial(t *testing.T) {
	inGatedBubble(t, func(t *testing.T, _ *fakeredis.Master, n *Node, gate chan<- error) {
		var calls []*call
		for _, c := range oneOfEach() {
			calls = append(calls, c.On(n))
		}
		stale := acquiring("stale", longTTL, "s").Within(n, time.Second).On(n)
		time.Sleep(4 * time.Second)
		require.Equal(t, len(calls)+1, n.Stats().Queued)
		require.Zero(t, n.Stats().Connected)
		gate <- nil
		for _, c := range calls {
			require.NotEqual(t, command.Failed, c.Reply(t).Outcome)
		}
		require.ErrorIs(t, stale.Reply(t).Err, command.ErrExpired, "up to their not-after instant")
	})
}

func TestAfterAFailedDialCommandsFailAtOnceAndSayWhy(t *testing.T) {
	inGatedBubble(t, func(t *testing.T, _ *fakeredis.Master, n *Node, gate chan<- error) {
		waiting := acquiring("A", longTTL, "k").On(n)
		time.Sleep(time.Second)
		gate <- errors.New("no route to the moon")
		for range 10 {
			r := waiting.Reply(t)
			requireUnsent(t, r)
			require.EqualError(t, r.Err, "pool: no connection to redis://n1:6379/0: no route to the moon")
			waiting = acquiring("A", longTTL, "k")
			began := time.Now()
			waiting.On(n)
			require.False(t, waiting.Pending(), "also while the next dial is under way")
			require.Zero(t, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
		gate <- nil
		synctest.Wait()
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, int64(1), n.Stats().DialFailures)
	})
}

func TestCommandsWaitForOneDialAfterAConnectionThatWasWell(t *testing.T) {
	inGatedBubble(t, func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error) {
		gate <- nil
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		only(t, m).Drop()
		synctest.Wait()
		c := acquiring("A", longTTL, "k").On(n)
		time.Sleep(time.Second)
		require.True(t, c.Pending())
		gate <- nil
		require.Equal(t, command.Granted, c.Reply(t).Outcome)
	})
}

func TestTheQueueIsBoundedWhileADialIsUnderWay(t *testing.T) {
	inBubble(t, func(c *Config) {
		c.Queue = 10
		c.Dial = (&gated{gate: make(chan error)}).Dial
	}, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		for range 10 {
			require.True(t, acquiring("A", longTTL, "k").On(n).Pending())
		}
		r := acquiring("A", longTTL, "k").On(n).Reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, ErrQueueFull)
		undo := releasing("A", "k").On(n)
		require.True(t, undo.Pending())
		require.Equal(t, 11, n.Stats().Queued)
	})
}

func TestRedialsBackOffAndStartAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		for range 3 {
			m.Stop()
			before := n.Stats().Dials
			time.Sleep(time.Minute)
			dials := n.Stats().Dials - before
			require.Greater(t, dials, int64(60_000/500), "never slower than every 500 ms")
			require.Less(t, dials, int64(60_000/250+10), "never faster than every 250 ms, but for the first")
			require.NoError(t, m.Restart(true))
			time.Sleep(500 * time.Millisecond)
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
		}
	})
}

// dropper is a network that ends each connection after a while, and counts connections by address.
type dropper struct {
	dial func(context.Context, string, string) (net.Conn, error)
	life time.Duration

	mu    sync.Mutex
	count map[string]int
}

func (d *dropper) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	time.AfterFunc(d.life, func() { _ = conn.Close() })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[address]++
	return conn, nil
}

// dropping puts the network between a node and its servers.
func (d *dropper) dropping(c *Config) {
	d.dial, d.count = c.Dial, map[string]int{}
	c.Dial = d.Dial
}

// most returns the largest number of connections to one address since the last call.
func (d *dropper) most() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.count {
		n = max(n, of)
	}
	clear(d.count)
	return n
}

// A server that accepts connections and drops them must not be dialled in a tight loop, because
// each connection costs it a handshake. This holds for every kind of connection, and for every
// RedialMax, which is for dials that fail.
func TestAServerThatDropsEachConnectionIsDialledAFewTimesASecond(t *testing.T) {
	const aSecond = 4 // four at the most, for each connection that is kept up
	for _, life := range []time.Duration{time.Millisecond, 11 * time.Millisecond, 600 * time.Millisecond, 1100 * time.Millisecond} {
		for _, redialMax := range []time.Duration{0, 10 * time.Millisecond} {
			d := &dropper{life: life}
			change := func(c *Config) {
				c.RedialMax = redialMax
				d.dropping(c)
			}
			within := func(connections int) {
				t.Helper()
				time.Sleep(5 * time.Second) // the first dials follow each other quickly
				d.most()
				time.Sleep(10 * time.Second)
				require.LessOrEqual(t, d.most(), 10*aSecond*connections, "%v, RedialMax %v", life, redialMax)
			}
			inBubble(t, change, func(_ *testing.T, _ *fakeredis.Master, n *Node) {
				within(1)
				s := voterOf(n).Subscribe(make(diary, 10_000))
				defer s.Close()
				s.Add("a")
				within(2)
			})
			nodetest.OnGroup(t, func(t *testing.T, h *nodetest.Group) {
				cfg := Config{Name: "n1", Dial: h.Dial, Clock: clock.Runtime(), Kind: &sentinel.Config{Master: "m", Addresses: h.Addresses()}}
				change(&cfg)
				n, err := Open(cfg)
				require.NoError(t, err)
				defer n.Close()
				within(2) // one for queries, one for the subscription
			})
			inCluster(t, change, func(*testing.T, *fakeredis.Cluster, *Node) {
				within(2) // locks, and the map
			})
		}
	}
}

// The limit does not delay the redial of a healthy server that restarts.
func TestAServerThatWasHealthyIsDialledAgainAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for range 20 {
			time.Sleep(time.Second + time.Millisecond)
			only(t, m).Drop()
			synctest.Wait()
			began := time.Now()
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			require.Zero(t, time.Since(began))
		}
	})
}

// docs/dev/hazards.md H55: a dial to a stopped server succeeds, and proves nothing.
func TestADialTimeoutBoundsTheHandshakeWithAMuteServer(t *testing.T) {
	inBubble(t, func(c *Config) { c.DialTimeout = time.Second }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		// The first dial succeeded. The next one goes to a frozen master.
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		client := only(t, m)
		m.Freeze()
		client.Drop()
		synctest.Wait()
		began := time.Now()
		r := acquiring("A", longTTL, "k").On(n).Reply(t)
		require.InDelta(t, time.Second, time.Since(began), float64(20*time.Millisecond))
		requireUnsent(t, r)
		require.EqualError(t, r.Err, "pool: the handshake took longer than the dial timeout of 1s")
		time.Sleep(time.Minute)
		require.Less(t, n.Stats().Dials, int64(60), "one at a time")
		m.Unfreeze()
		time.Sleep(2 * time.Second)
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		synctest.Wait()
		require.Equal(t, 1, m.Connections(), "none of the dials is left")
	})
}

func TestUndosAreKeptOverRedialsUntilTheyAreAnswered(t *testing.T) {
	for name, undo := range map[string]func() *call{
		"release": func() *call { return releasing("A", "k") },
		"shorten": func() *call { return shortening("A", time.Second, "k") },
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, acquiring("A", time.Hour, "k").Outcome(t, n))
			m.Stop()
			time.Sleep(time.Second) // dials have failed
			first := undo().Within(n, time.Minute).On(n)
			other := acquiring("B", longTTL, "l").On(n)
			requireUnsent(t, other.Reply(t))
			time.Sleep(10 * time.Second)
			require.True(t, first.Pending(), name)
			require.NoError(t, m.Restart(true))
			require.Equal(t, command.Granted, first.Reply(t).Outcome, name)
			require.LessOrEqual(t, m.TTL("k"), time.Second)
			require.Equal(t, 1, count(m, "EVALSHA "+name))
		})
	}
}

func TestUndosThatOutliveTheirKeysAreAnsweredAsNotSent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Stop()
		time.Sleep(time.Second)
		began := time.Now()
		undo := releasing("A", "k").Within(n, 10*time.Second).On(n)
		r := undo.Reply(t)
		requireUnsent(t, r)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
		require.Zero(t, n.Stats().Queued)
	})
}

// The undo was sent on the connection that ended, and may have been executed there. It must not be
// reported as unsent.
func TestAnUndoThatWasSentOnceIsNeverCalledUnsent(t *testing.T) {
	for name, end := range map[string]func(m *fakeredis.Master, n *Node){
		"expired": func(*fakeredis.Master, *Node) { time.Sleep(time.Minute) },
		"closed":  func(_ *fakeredis.Master, n *Node) { _ = n.Close() },
		"expired before it could go again": func(m *fakeredis.Master, _ *Node) {
			time.Sleep(7 * time.Second)
			m.Unfreeze()
		},
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
			only(t, m).HoldReplies()
			undo := releasing("A", "k").Within(n, 6*time.Second).On(n)
			synctest.Wait()
			require.Empty(t, m.Keys(), "executed")
			m.Freeze()
			only(t, m).Drop()
			time.Sleep(100 * time.Millisecond)
			require.True(t, undo.Pending())
			end(m, n)
			r := undo.Reply(t)
			require.Equal(t, command.Unknown, r.Outcome, name)
			require.Error(t, r.Err)
		})
	}
}

// A killed process never executes what it had not executed. No connection has to be killed, and no
// undo repeated.
func TestAServerThatComesBackAsAnotherProcessGetsTheUndosOnce(t *testing.T) {
	for _, keep := range []bool{true, false} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.Set("held", "H", time.Hour)
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.Freeze()
			acquire := acquiring("A", longTTL, "k").On(n)
			undo := releasing("A", "k").Within(n, longTTL).On(n)
			held := releasing("H", "held").Within(n, longTTL).On(n)
			synctest.Wait()
			require.NoError(t, m.Restart(keep))
			r := acquire.Reply(t)
			require.Equal(t, command.Unknown, r.Outcome)
			require.ErrorIs(t, r.Err, ErrDisconnected)
			require.Equal(t, command.Unknown, undo.Reply(t).Outcome)
			require.Equal(t, keep, held.Reply(t).Outcome == command.Granted, "a log may have brought it back")
			time.Sleep(time.Minute)
			require.Empty(t, m.Keys())
			require.Zero(t, count(m, "SET"), "an acquire is sent once")
			require.Equal(t, 2, count(m, "EVALSHA release"))
			require.Zero(t, count(m, "CLIENT KILL"))
		})
	}
}

// stale is a connection whose peer is gone without notice. Reads report that only after a write
// (docs/dev/hazards.md H77).
type stale struct {
	net.Conn
	touched chan struct{}
	gone    *atomic.Bool
}

func (s *stale) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil && s.gone.Load() {
		<-s.touched
		return 0, io.EOF
	}
	return n, err
}

func (s *stale) Write(p []byte) (int, error) {
	if s.gone.Load() {
		s.touch()
		return 0, syscall.ECONNRESET
	}
	return s.Conn.Write(p)
}

func (s *stale) Close() error {
	s.touch()
	return s.Conn.Close()
}

func (s *stale) touch() {
	select {
	case <-s.touched:
	default:
		close(s.touched)
	}
}

func TestAStaleConnectionCostsAnUnknownVoteAndTheNextCommandWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		var gone atomic.Bool
		n := opened(t, m, func(c *Config) {
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := m.Dial(ctx, network, address)
				if err != nil || gone.Load() {
					return conn, err
				}
				return &stale{Conn: conn, touched: make(chan struct{}), gone: &gone}, nil
			}
		})
		defer n.Close()
		require.Equal(t, command.Granted, acquiring("A", time.Hour, "held").Outcome(t, n))
		gone.Store(true)
		require.NoError(t, m.Restart(true))
		time.Sleep(healthyEvery / 2)
		require.Equal(t, int64(1), n.Stats().Dials, "nobody knows, until it is looked at")

		r := acquiring("B", longTTL, "k").On(n).Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorIs(t, r.Err, ErrDisconnected)
		require.Equal(t, command.Granted, acquiring("C", longTTL, "k").Outcome(t, n))
		require.Equal(t, command.Granted, releasing("A", "held").Outcome(t, n))
	})
}

// A connection has ended, and the reader has not noticed it. Nothing more may be written on it,
// because the outcome of such a command would be unknown without need.
func TestNothingIsWrittenOnAConnectionThatHasEnded(t *testing.T) {
	var first net.Conn
	inBubble(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if first == nil && err == nil {
				first = conn
				conn = lingering{conn}
			}
			return conn, err
		}
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		sent := n.Stats().Written
		serverOf(n).EndConn(ErrDisconnected)
		c := acquiring("A", longTTL, "k").On(n)
		synctest.Wait() // the writer could have written it
		require.Equal(t, sent, n.Stats().Written)
		require.Equal(t, 1, n.Stats().Queued)
		require.NoError(t, first.Close())
		require.Equal(t, command.Granted, c.Reply(t).Outcome)
		require.Equal(t, 1, count(m, "SET"))
		require.Equal(t, int64(2), n.Stats().Dials)
	})
}

// lingering is a connection whose Close does not end its reader.
type lingering struct{ net.Conn }

func (lingering) Close() error { return nil }

// docs/dev/hazards.md H71: a connection that ends in the middle of a reply.
func TestAPartialReplyIsUnknown(t *testing.T) {
	for cut := range 5 {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			only(t, m).CutReply(cut) // of +OK\r\n
			r := acquiring("A", longTTL, "k").On(n).Reply(t)
			require.Equal(t, command.Unknown, r.Outcome)
			require.ErrorIs(t, r.Err, ErrDisconnected)
			v, _ := m.Get("k")
			require.Equal(t, "A", v, "and executed")
			require.Equal(t, command.Granted, releasing("A", "k").Within(n, longTTL).Outcome(t, n))
		})
	}
}

func TestAReplyWithoutACommandEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unasked := make(chan net.Conn, 10)
		n, err := Open(Config{Name: "n", Address: "n", Clock: clock.Runtime(), Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := pipenet.Pipe("client", "server")
			unasked <- server
			go fake(wellBehaved).serve(server)
			return client, nil
		}})
		require.NoError(t, err)
		defer n.Close()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		server := <-unasked
		_, err = io.WriteString(server, "+OK\r\n") // as if in reply to the next command
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, int64(2), n.Stats().Dials)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

// An invalid reply ends the connection, and the commands under way are Unknown.
func TestGarbageEndsTheConnection(t *testing.T) {
	for _, garbage := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "$5\r\nabcdefgh\r\n", "\r\n", ":x\r\n", "\x00\x00\x00\r\n"} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == "SET" {
					return "+OK\r\n" + garbage, true
				}
				return "", false
			})
			c, d := acquiring("A", longTTL, "k"), acquiring("B", longTTL, "l")
			only(t, m).HoldRequests()
			c.On(n)
			d.On(n)
			synctest.Wait()
			only(t, m).Release()
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
			require.Equal(t, command.Unknown, d.Reply(t).Outcome, "%q", garbage)
			m.Hook(nil)
			require.Equal(t, command.Granted, acquiring("C", longTTL, "m").Outcome(t, n))
		})
	}
}

// thenSubmit is an owner that submits the next command when the first is answered.
type thenSubmit struct {
	*call
	next *call
	n    *Node
}

func (s thenSubmit) Answer(c *command.Command, r command.Reply) {
	s.next.On(s.n)
	s.call.Answer(c, r)
}

// What an owner submits when its command fails with the dial fails at once too.
func TestACommandThatFollowsAFailedDialFailsAtOnce(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) { m.Stop() }, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		first, next := acquiring("A", longTTL, "k"), acquiring("B", longTTL, "k")
		first.To = thenSubmit{first, next, n}
		requireUnsent(t, first.On(n).Reply(t))
		began := time.Now()
		requireUnsent(t, next.Reply(t))
		require.Zero(t, time.Since(began))
	})
}

// After an outage commands would otherwise fail at each end of a connection, instead of waiting for one dial.
func TestAConnectionEndsTheFailuresOfTheDialsBeforeIt(t *testing.T) {
	var pause time.Duration
	slow := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(pause)
			return dial(ctx, network, address)
		}
	}
	inBubble(t, slow, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Stop()
		time.Sleep(time.Second)
		requireUnsent(t, pinging().On(n).Reply(t))
		require.NoError(t, m.Restart(true))
		time.Sleep(2*time.Second + time.Second)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		pause = 100 * time.Millisecond
		only(t, m).Drop()
		synctest.Wait()
		require.Zero(t, n.Stats().Connected)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

// Each probe of an undo would otherwise cost a connection.
func TestAProbeThatFindsAReplicaEndsNoConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.FailWith("EVALSHA", "READONLY You can't write against a read only replica.")
		require.True(t, releasing("A", "k").Within(n, time.Hour).On(n).Reply(t).Retrying)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, n.Stats().Dials, int64(2), "the first answer ends one")
		require.Greater(t, count(m, "EVALSHA release"), 30)
	})
}
