package pool

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// docs/dev/hazards.md H95, docs/dev/rules.md rule 6: an undo's connection ends before its answer,
// and connections cannot be killed.

// swallower is a network that loses what is written while swallow is set, like the bytes of an undo
// in the socket's buffer when the connection is reset.
type swallower struct {
	net.Conn
	swallow *atomic.Bool
}

func (s swallower) Write(p []byte) (int, error) {
	if s.swallow.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

// lossy is onMaster without the right to kill, on a network that can lose bytes.
func lossy(t *testing.T, f func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool)) {
	t.Helper()
	var swallow atomic.Bool
	change := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return swallower{conn, &swallow}, err
		}
	}
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }, change, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f(t, m, n, &swallow)
	})
}

// loseUndo ends the master's connection while an acquire is in transit and its undo was lost, and returns
// that connection and the undo.
func loseUndo(t *testing.T, m *fakeredis.Master, n *Node, ttl time.Duration, swallow *atomic.Bool) (old *fakeredis.Client, undo *call) {
	t.Helper()
	old = only(t, m)
	old.HoldRequests()
	acquire := acquiring("A", ttl, "k").On(n)
	synctest.Wait()
	swallow.Store(true)
	undo = releasing("A", "k").Within(n, ttl).On(n)
	synctest.Wait()
	swallow.Store(false)
	old.Drop()
	require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
	return old, undo
}

// The acquire is in transit, and its undo was lost with the connection. The second undo executes
// before the acquire and finds nothing. It must be repeated all the same.
func TestAnUndoThatWasLostWithItsConnectionIsRepeatedWhereNothingIsKilled(t *testing.T) {
	lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		old, undo := loseUndo(t, m, n, longTTL, swallow)
		r := undo.Reply(t)
		require.Equal(t, command.Unknown, r.Outcome, "it may have undone it the first time")
		old.Release()
		synctest.Wait()
		require.Equal(t, []string{"k"}, m.Keys(), "the ghost is there")
		time.Sleep(sweepRound + 100*time.Millisecond)
		require.Empty(t, m.Keys())
		time.Sleep(3 * longTTL)
		m.ForgetLog()
		time.Sleep(10 * longTTL)
		require.Empty(t, quiet(m), "not for ever")
	})
}

// The TTL is far below the hard timeout. The undo expires before the silent connection is given up,
// and was lost with it.
//
// Its caller gets Unknown. The undo is sent all the same, for as long as the acquire may still make
// a key.
func TestAnUndoOutlivesItsNotAfterInstantWhileItsAcquireMay(t *testing.T) {
	const ttl = 2 * time.Second // the hard timeout is 5 s
	for _, late := range []time.Duration{0, 30 * time.Millisecond, time.Second} {
		lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			old := only(t, m)
			old.HoldRequests()
			acquire := acquiring("A", ttl, "k", "l").On(n)
			time.Sleep(ttl / 4)
			swallow.Store(true)
			undo := releasing("A", "k", "l").Within(n, ttl).On(n)
			synctest.Wait()
			swallow.Store(false)
			require.ErrorIs(t, acquire.Reply(t).Err, ErrSilent)
			require.Equal(t, command.Unknown, undo.Reply(t).Outcome)
			require.True(t, undo.Expired(n.cfg.Clock.Now()))
			time.Sleep(100*time.Millisecond + late) // another connection is up
			old.Release()
			synctest.Wait()
			require.ElementsMatch(t, []string{"k", "l"}, m.Keys(), "the ghost is there, late %v", late)
			time.Sleep(1900 * time.Millisecond) // the next sweep; the key's TTL is ttl
			require.Empty(t, m.Keys(), "late %v", late)
			time.Sleep(3 * ttl)
			m.ForgetLog()
			time.Sleep(time.Minute)
			require.Empty(t, quiet(m), "not for ever")
		})
	}
}

// The same for an undo that was never written. It waits in the queue behind its acquire, and the
// writer is stuck in a frozen master's full buffer.
func TestAnUndoOutOfDateInTheQueueIsNotDropped(t *testing.T) {
	const ttl = 2 * time.Second
	lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, _ *atomic.Bool) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		old := only(t, m)
		old.HoldRequests()
		acquire := acquiring("A", ttl, "k").On(n)
		synctest.Wait()
		for range 4 * pipenet.Buffer / 512 {
			acquiring("B", ttl, strings.Repeat("x", 512)).Within(n, ttl).On(n)
		}
		synctest.Wait()
		undo := releasing("A", "k").Within(n, ttl).On(n)
		time.Sleep(2 * ttl)
		require.True(t, undo.Pending())
		old.Release() // the undo is written now, late, after its acquire
		require.Equal(t, command.Granted, undo.Reply(t).Outcome)
		require.False(t, acquire.Pending())
		synctest.Wait()
		require.NotContains(t, m.Keys(), "k")
	})
}

// The master is down for longer than the undo's TTL, and every dial fails meanwhile. The test
// covers failUnsent for an undo that has expired and for the one that replaces it.
func TestAnUndoOfAnOrphanOutlivesFailedDials(t *testing.T) {
	const ttl = 2 * time.Second
	prepare := func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }
	change := func(c *Config) { c.DialTimeout = 500 * time.Millisecond }
	onMaster(t, prepare, change, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		acquire := acquiring("A", ttl, "k").On(n)
		synctest.Wait()
		old := only(t, m)
		old.HoldRequests()
		undo := releasing("A", "k").Within(n, ttl)
		require.Equal(t, command.Unknown, acquire.Reply(t).Outcome) // 5 s later
		undo.On(n)
		time.Sleep(ttl + 5*time.Second) // dials fail
		r := undo.Reply(t)
		require.Equal(t, command.Failed, r.Outcome, "who waits for it hears of its not-after instant")
		require.True(t, r.NotSent)
		time.Sleep(time.Minute)
		m.Unfreeze()
		time.Sleep(time.Second)
		old.Release()
		synctest.Wait()
		require.Equal(t, []string{"k"}, m.Keys(), "the ghost is there")
		time.Sleep(1600 * time.Millisecond) // the key's TTL is longer
		require.Empty(t, m.Keys())
		time.Sleep(3 * ttl)
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Empty(t, quiet(m), "not for ever")
	})
}

// Connections that end again and again do not postpone the end of the repetitions.
func TestALaterConnectionDoesNotPostponeTheEndOfAnUndosRepetitions(t *testing.T) {
	const ttl = 10 * time.Second
	lossy(t, func(t *testing.T, m *fakeredis.Master, n *Node, swallow *atomic.Bool) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		old, undo := loseUndo(t, m, n, ttl, swallow)
		undo.Reply(t)
		for range 6 {
			time.Sleep(ttl / 2)
			for _, c := range m.Clients() {
				if c != old {
					c.Drop()
				}
			}
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
		}
		m.ForgetLog()
		time.Sleep(ttl)
		require.Empty(t, quiet(m))
	})
}

// loseAcquire ends the master's connection while an acquire is in transit, and returns that connection.
func loseAcquire(t *testing.T, m *fakeredis.Master, n *Node) (old *fakeredis.Client) {
	t.Helper()
	old = only(t, m)
	old.HoldRequests()
	acquire := acquiring("A", longTTL, "k").On(n)
	synctest.Wait()
	old.Drop()
	require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
	return old
}

// Where one of the two connections is not known, its ID may be that of another one, and 0 is that of all before Redis 6.2. An undo that
// was sent once would leave the key of the late acquire.
func TestNothingIsKilledOnAServerThatMayBeAnotherOne(t *testing.T) {
	const noID = "CLIENT INFO,CLIENT ID"
	for first, second := range map[string]string{noID: noID, "": "INFO", "INFO": ""} {
		prepare := func(m *fakeredis.Master) { m.Deny(strings.Split(first, ",")...) }
		onMaster(t, prepare, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			except(n, true)
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.Deny(strings.Split(second, ",")...)
			old := only(t, m)
			old.HoldRequests()
			acquire := acquiring("A", longTTL, "k").On(n)
			synctest.Wait()
			m.ForgetLog()
			old.Drop()
			require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
			undo := releasing("A", "k").Within(n, longTTL).On(n)
			require.Equal(t, command.Refused, undo.Reply(t).Outcome)
			require.Zero(t, count(m, "CLIENT KILL"), "%s, then %s", first, second)
			old.Release()
			synctest.Wait()
			require.Equal(t, []string{"k"}, m.Keys(), "the ghost is there")
			time.Sleep(sweepRound + 100*time.Millisecond)
			require.Empty(t, m.Keys(), "%s, then %s", first, second)
			require.True(t, undo.Pending(), "a repetition has no owner, who may have reused the undo's memory")
		})
	}
}

// A reader that ends may queue an undo again after Close. Nothing would ever answer it.
func TestAClosedNodeAnswersWhatIsQueuedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		require.NoError(t, n.Close())
		c := releasing("A", "k").Within(n, longTTL)
		serverOf(n).Requeue(&c.Command)
		require.ErrorIs(t, c.Reply(t).Err, ErrDisconnected)
	})
}
