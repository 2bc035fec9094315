package redlock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// splitFor runs TryAcquire on three masters of which two hold other tokens for a while.
func splitFor(fl *testbed, l *Locker, d time.Duration, opts ...LockOption) (*Lock, error) {
	for i, m := range fl.masters[:2] {
		m.Set("a", []string{"x", "y"}[i], time.Hour)
	}
	time.AfterFunc(d, func() {
		fl.masters[0].Del("a")
		fl.masters[1].Del("a")
	})
	return l.TryAcquire(bg, "a", 2*time.Second, opts...)
}

// docs/dev/rules.md rule 19: each repetition has a token of its own, and follows the undo of the
// one before.
func TestTryAcquireRepeatsASplitVoteAsANewAttempt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // the third one is free
		k, err := splitFor(fl, fl.locker(), 200*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, worth(2*time.Second), k.Remaining(), "its validity counts from its own start")
		fl.answered()
		sets, pending := tokens(fl.masters[2]), ""
		require.Greater(t, len(sets), 2)
		seen := map[string]bool{}
		for _, e := range fl.masters[2].Log() {
			switch {
			case e.Name == "SET":
				require.Empty(t, pending, "its undo was not queued before")
				require.False(t, seen[e.Args[1]], "a token was used twice")
				pending, seen[e.Args[1]] = e.Args[1], true
			case e.Name == "EVALSHA" && pending != "" && slices.Contains(e.Args, pending) && e.Args[0] != hashOf(t, "inspect"):
				pending = ""
			}
		}
		require.Equal(t, k.Token(), pending, "and the last one won")
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())
	})
}

func hashOf(t *testing.T, name string) string {
	t.Helper()
	for _, s := range command.Scripts() {
		if scriptKind(s) == name {
			return s.Hash
		}
	}
	t.Fatalf("there is no script %s", name)
	return ""
}

// A minimum hold counts from the attempt that won.
func TestAMinimumHoldCountsFromTheWinningAttempt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // the third one is free
		k, err := splitFor(fl, fl.locker(), 200*time.Millisecond, WithMinHold(time.Second))
		require.NoError(t, err)
		won := time.Now()
		fl.heldEverywhere("a")
		released := time.Now()
		left := (time.Second - released.Sub(won) + time.Millisecond - 1).Truncate(time.Millisecond)
		require.NoError(t, k.Release(bg))
		fl.answered()
		fl.each(func(m *fakeredis.Master) { requireTTL(t, m, "a", left, released) })
	})
}

// Two contenders that crashed have left a key each. TryAcquire tries until the node timeout is
// over, and then returns that the name is held. If the keys change meanwhile, it returns a split
// vote.
func TestTryAcquireDistinguishesKeysThatRemainFromASplitVote(t *testing.T) {
	for _, stay := range []bool{true, false} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // the others refuse
			stop := make(chan struct{})
			if !stay {
				go func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(20 * time.Millisecond):
							fl.masters[0].Set("a", "x"+string(rune('a'+i%26)), time.Hour)
						}
					}
				}()
			}
			var err error
			took := elapsed(func() { _, err = splitFor(fl, fl.locker(), time.Hour) })
			close(stop)
			require.ErrorIs(t, err, ErrHeld)
			require.Equal(t, !stay, isSplit(err), "%v", err)
			if !stay {
				require.Regexp(t, `acquire "a": split vote, [01] of 3 votes`, err) // 0: two refusals came first
			}
			require.LessOrEqual(t, took, maxNodeTimeout)
			require.Greater(t, took, maxNodeTimeout/2)
		})
	}
}

// The end of the caller's context and Close both end the pause between two attempts.
func TestTryAcquireThatRepeatsEndsWithItsContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others refuse
		ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
		defer cancel()
		l := fl.locker()
		fl.masters[0].Set("a", "x", time.Hour)
		fl.masters[1].Set("a", "y", time.Hour)
		var err error
		require.Equal(t, 50*time.Millisecond, elapsed(func() { _, err = l.TryAcquire(ctx, "a", 2*time.Second) }))
		require.ErrorIs(t, err, ctx.Err())
		require.ErrorIs(t, err, ErrHeld)
		time.AfterFunc(50*time.Millisecond, func() { _ = l.Close(bg) })
		require.Equal(t, 50*time.Millisecond, elapsed(func() { _, err = l.TryAcquire(bg, "a", 2*time.Second) }))
		require.ErrorIs(t, err, ErrClosed)
	})
}

// The query for a plain holder is cut short, in the first attempt or a later one. The error must
// not report a split vote, and must have the reason for which the call ended.
func TestAQueryThatIsCutShortReportsNoSplitVote(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		const trip = 50 * time.Millisecond
		token := command.NewToken("holder")
		fl.each(func(m *fakeredis.Master) {
			m.Set("a", token, time.Minute)
			m.SetDelay(trip)
		})
		for _, what := range []string{"TryAcquire", "Acquire"} {
			acquire := (*Locker).TryAcquire
			if what == "Acquire" {
				acquire = (*Locker).Acquire
			}
			l := fl.locker()
			pass(time.Second) // it has dialled
			ctx, cancel := context.WithTimeout(bg, 3*trip/2)
			_, err := acquire(l, ctx, "a", 10*time.Second)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, what)
			require.ErrorIs(t, err, ErrHeld, what)
			require.False(t, isSplit(err), "%s: %v", what, err)
			time.AfterFunc(3*trip/2, func() { _ = l.Close(bg) })
			_, err = acquire(l, bg, "a", 10*time.Second)
			require.ErrorIs(t, err, map[string]error{"TryAcquire": ErrHeld, "Acquire": ErrClosed}[what])
			require.False(t, isSplit(err), "%s: %v", what, err)
		}
	})
}

// Close ends a repeated query for the holder, with Close's own error.
func TestCloseEndsTheQueryOfARepetition(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		const trip = 50 * time.Millisecond
		fl.lateAt(2) // the others refuse
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) {
			m.Set("a", m.Name(), time.Minute)
			m.SetDelay(trip)
		})
		attempts := 0
		fl.masters[0].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "SET" {
				if attempts++; attempts == 2 { // the query begins after a round trip
					time.AfterFunc(3*trip/2, func() { _ = l.Close(bg) })
				}
			}
			return "", false
		})
		_, err := l.TryAcquire(bg, "a", 10*time.Second)
		require.EqualError(t, err, `redlock: locker closed: "a"`)
		require.Equal(t, 2, attempts)
	})
}

// If the shortest pause is as long as the node timeout, there is no time for another attempt.
func TestTryAcquireMakesOneAttemptWhereThePauseIsAsLongAsTheNodeTimeout(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		_, err := splitFor(fl, fl.locker(withBackoff(maxNodeTimeout, time.Second)), 50*time.Millisecond)
		require.ErrorIs(t, err, ErrHeld)
		require.True(t, isSplit(err))
	})
}

// Two of three nodes do not answer and the third refuses. This is a fault for every kind of
// acquisition, for the log and for hooks.
func TestARefusalWithoutAQuorumIsAFault(t *testing.T) {
	for _, what := range []string{"fxf", "ffx", "xff", "f-x", "-x-", "x--", "fx-"} {
		synctest.Test(t, func(t *testing.T) {
			log, attempts := &logged{}, []error(nil)
			nodes, l := fakes(t, 3, WithClock(clock.Runtime()), WithLogger(log.logger()),
				WithTrace(&Trace{Attempt: func(e RoundEvent) { attempts = append(attempts, e.Err) }}))
			defer func() { _ = l.Close(bg) }()
			for i, n := range nodes {
				seenAs(n, what[i])
			}
			err := tried(l)
			require.ErrorIs(t, err, ErrNoQuorum, what)
			require.NotErrorIs(t, err, ErrHeld, what)
			require.Equal(t, []string{"WARN no quorum votes: nothing can be acquired"}, log.newLines(t), what)
			_, err = l.Acquire(bg, "a", time.Minute, WithFailFast())
			require.ErrorIs(t, err, ErrNoQuorum, what)
			require.NotErrorIs(t, err, ErrHeld, what)
			require.Empty(t, log.newLines(t), "%s: no quorum votes again", what)
			ctx, cancel := context.WithTimeout(bg, time.Millisecond)
			defer cancel()
			_, err = l.TryAcquire(ctx, "a", time.Minute)
			require.Error(t, err, what)
			require.Empty(t, log.newLines(t), "%s: nor did one in an attempt that was cut short", what)
			require.Len(t, attempts, 3)
			attempts = attempts[:2]
			for _, err := range attempts {
				require.ErrorIs(t, err, ErrNoQuorum, what)
			}
		})
	}
}

// One node is down and one refuses. The third node's acquire is cancelled by the undo before it was
// sent, which is not a failure of that node. So this is a split vote.
func TestACancelledAcquireIsNoFault(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
		seenAs(nodes[0], 'f')
		seenAs(nodes[1], 'x')
		var queued *command.Command
		nodes[2].script = func(n *fakeNode, c *command.Command) bool {
			switch {
			case c.Op == command.Acquire:
				queued = c
				return true
			case queued != nil:
				n.act(queued) // the acquire was cancelled
				queued = nil
			}
			return false
		}
		_, _, err := (&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: time.Minute}}).attempt(bg, nil)
		require.ErrorIs(t, err, ErrHeld)
		require.True(t, isSplit(err), "%v", err)
	})
}
