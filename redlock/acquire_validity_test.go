package redlock

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
)

// worth returns the validity of a TTL under the default drift of 1 % and 2 ms.
func worth(ttl time.Duration) time.Duration {
	return ttl - ttl/100 - 2*time.Millisecond - min(ttl/20, 5*time.Millisecond)
}

// H5: the validity counts from before the first send, however long the answers take. It ends before
// the key does on any node that granted.
func TestValidityCountsFromBeforeTheFirstSend(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 5))
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Duration(random.IntN(400)) * time.Millisecond) })
			ttl := time.Duration(2+random.IntN(100)) * time.Second
			var k *Lock
			took := elapsed(func() { k, _ = l.TryAcquire(bg, "a", ttl) })
			require.NotNil(t, k, "seed %d", seed)
			require.Equal(t, worth(ttl)-took, k.Remaining(), "seed %d", seed)
			fl.answered()
			fl.each(func(m *fakeredis.Master) { require.Less(t, k.Remaining(), m.TTL("a"), "seed %d", seed) })
			time.Sleep(k.Remaining() - time.Nanosecond)
			require.NoError(t, k.Context().Err())
			require.Equal(t, 3, fl.keys("a"), "seed %d: the holder outlives its keys", seed)
			time.Sleep(time.Nanosecond)
			require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		})
	}
}

// H5: the wait for a dial counts, and so does the second round trip after NOSCRIPT.
func TestWaitingForADialOrAScriptCounts(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		nodes := make([]*pool.Node, len(fl.masters))
		for i, m := range fl.masters {
			cfg := pool.Config{Name: m.Name(), Address: m.Addr(), Clock: fl.clock}
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				time.Sleep(80 * time.Millisecond)
				return m.Dial(ctx, network, address)
			}
			n, err := pool.Open(cfg)
			require.NoError(t, err)
			nodes[i] = n
			m.SetDelay(10 * time.Millisecond)
		}
		l, err := New(nodes, WithClock(fl.clock))
		require.NoError(t, err)
		fl.t.Cleanup(func() { fl.close(l) })
		var k *Lock
		took := elapsed(func() { k, err = l.TryAcquire(bg, "a", 10*time.Second) })
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, took) // dial, handshake, SET
		require.Equal(t, worth(10*time.Second)-took, k.Remaining())

		k, err = l.TryAcquireAll(bg, []string{"d", "e"}, 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		fl.each(func(m *fakeredis.Master) { m.FlushScripts() }) // after they were loaded
		took = elapsed(func() { k, err = l.TryAcquireAll(bg, []string{"b", "c"}, 10*time.Second) })
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, took) // EVALSHA, EVAL
		require.Equal(t, worth(10*time.Second)-took, k.Remaining())
	})
}

// H6: the clock is read again when the quorum is reached. Here the clock jumps by d at the second
// node's answer, as if the machine had been suspended during the vote.
func TestAQuorumThatComesTooLateIsNoLock(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct {
		d   time.Duration
		opt []LockOption
		err error
	}{
		{worth(ttl) - 1, nil, nil},
		{worth(ttl), nil, ErrTooLate},
		{worth(ttl) + 1, nil, ErrTooLate},
		{time.Hour, nil, ErrTooLate},
		{worth(ttl) - time.Second - 1, []LockOption{WithStopMargin(time.Second)}, nil},
		{worth(ttl) - time.Second, []LockOption{WithStopMargin(time.Second)}, ErrTooLate},
		{worth(15*time.Second) - 1, []LockOption{WithMinHold(15 * time.Second)}, nil},
		{worth(15 * time.Second), []LockOption{WithMinHold(15 * time.Second)}, ErrTooLate},
	} {
		onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, now *clocktest.Skewed) {
			nodes[1].script = func(_ *fakeNode, cmd *command.Command) bool {
				if cmd.Op == command.Acquire {
					now.Suspend(c.d)
				}
				return false
			}
			k, err := l.TryAcquire(bg, "a", ttl, c.opt...)
			if c.err == nil {
				require.NoError(t, err)
				require.Equal(t, worth(max(ttl, k.opts.minHold))-c.d, k.Remaining())
				return
			}
			require.Nil(t, k)
			require.ErrorIs(t, err, c.err)
			require.NotErrorIs(t, err, ErrHeld)
			require.NotErrorIs(t, err, ErrNoQuorum)
			for _, n := range nodes {
				require.Empty(t, n.held, "what came too late was not undone")
				require.Len(t, n.commands(command.Release), 1)
			}
		})
	}
}

// H6: a waiting Acquire tries again after a quorum that came too late.
func TestAcquireTriesAgainAfterAQuorumThatCameTooLate(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, now *clocktest.Skewed) {
		slow := 3
		nodes[1].script = func(_ *fakeNode, cmd *command.Command) bool {
			if cmd.Op == command.Acquire && slow > 0 {
				slow--
				now.Suspend(time.Minute)
			}
			return false
		}
		k, err := l.Acquire(bg, "a", 10*time.Second)
		require.NoError(t, err)
		require.Len(t, nodes[0].commands(command.Acquire), 4)
		require.Equal(t, worth(10*time.Second), k.Remaining())
	})
}

// H5, H6: an acquire that could not be sent before its validity was over is never sent.
func TestAnAcquireIsNotSentAfterItsValidity(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
		start := l.now()
		_, err := l.TryAcquire(bg, "a", 10*time.Second)
		require.NoError(t, err)
		for _, n := range nodes {
			c := n.commands(command.Acquire)[0]
			require.Equal(t, worth(10*time.Second), c.NotAfter.Sub(start))
			require.False(t, c.Expired(l.now()))
			require.Equal(t, 10*time.Second, c.TTL)
		}
		time.Sleep(worth(10 * time.Second))
		require.True(t, nodes[0].commands(command.Acquire)[0].Expired(l.now()))
	})
}
