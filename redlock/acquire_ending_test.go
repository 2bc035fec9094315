package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// errStop is the reason for which a caller gives up.
var errStop = errors.New("the caller's own reason")

// H84: an Acquire that its context ends returns the context's cause and the reason for which it had
// not succeeded by then.
func TestAnAcquireThatEndsByItsContextNamesTheCauseAndTheReason(t *testing.T) {
	held := func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set("a", command.NewToken("she"), time.Hour) })
	}
	for name, c := range map[string]struct {
		before func(fl *testbed)
		cause  error
		at     time.Duration // when the context ends; the masters take 20 ms to answer
		reason error
		not    error
	}{
		"held, by deadline":             {held, context.DeadlineExceeded, time.Second, ErrHeld, ErrNoQuorum},
		"held, cancelled with a cause":  {held, errStop, time.Second, ErrHeld, ErrNoQuorum},
		"held, in the second attempt":   {held, errStop, 70 * time.Millisecond, ErrHeld, ErrNoQuorum},
		"two of three stopped":          {stopTwo, errStop, time.Second, ErrNoQuorum, ErrHeld},
		"nobody has answered yet":       {func(*testbed) {}, errStop, 10 * time.Millisecond, ErrNoQuorum, ErrHeld},
		"frozen, within the first vote": {freezeTwo, context.DeadlineExceeded, 10 * time.Millisecond, ErrNoQuorum, ErrHeld},
		"frozen, in a later vote":       {freezeTwo, context.DeadlineExceeded, 3 * time.Second, ErrNoQuorum, ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker(withBackoff(25*time.Millisecond, 25*time.Millisecond))
				fl.each(func(m *fakeredis.Master) { m.SetDelay(20 * time.Millisecond) })
				c.before(fl)
				ctx, cancel := context.WithCancelCause(bg)
				time.AfterFunc(c.at, func() { cancel(c.cause) })
				var err error
				took := elapsed(func() { _, err = l.Acquire(ctx, "a", time.Minute) })
				require.Equal(t, c.at, took)
				require.ErrorIs(t, err, c.cause)
				require.ErrorIs(t, err, c.reason)
				require.NotErrorIs(t, err, c.not)
				require.ErrorContains(t, err, c.cause.Error())
				require.ErrorContains(t, err, `acquire "a"`)
				oneLine(t, err)
				fl.thaw()
				time.Sleep(time.Second)
				require.Equal(t, errors.Is(err, ErrHeld), len(fl.left()) == 1) // no key of this attempt is left
			})
		})
	}
}

func stopTwo(fl *testbed)   { fl.masters[0].Stop(); fl.masters[2].Stop() }
func freezeTwo(fl *testbed) { fl.masters[0].Freeze(); fl.masters[2].Freeze() }
func (fl *testbed) thaw()   { fl.each(func(m *fakeredis.Master) { m.Unfreeze() }) }

// H84: the same when the context ends while the nodes are queried for the holder again.
func TestADeadlineWithinAnExplanationLeavesTheOneBefore(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.locker(WithOwner("she")), "a", time.Minute)
		ctx, cancel := context.WithCancel(bg)
		var sets atomic.Int32
		fl.each(func(m *fakeredis.Master) {
			m.Deny("SUBSCRIBE") // so that it polls by attempts
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				switch {
				case cmd == "SET":
					sets.Add(1)
				case cmd == "EVALSHA" && sets.Load() > 3: // everything that is sent after the second attempt
					cancel()
					time.Sleep(time.Second)
				}
				return "", false
			})
		})
		_, err := fl.locker().Acquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		require.Greater(t, sets.Load(), int32(3))
		var he *HeldError
		require.ErrorAs(t, err, &he)
		require.Equal(t, "she", he.Owner)
	})
}

// All nodes refused, and one of them does not answer the query for the holder. Close must end both
// calls at once, and their errors must name the holder.
func TestCloseEndsAnAcquireThatQueriesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		token := command.NewToken("she")
		for i, n := range nodes {
			n.held["a"] = token
			n.script = func(_ *fakeNode, c *command.Command) bool { return i == 2 && c.Op == command.Inspect }
		}
		began, got := time.Now(), make(chan error, 2)
		go func() { got <- second(l.Acquire(bg, "a", time.Minute)) }()
		synctest.Wait()
		require.Len(t, nodes[2].commands(command.Inspect), 1)
		require.Empty(t, got)
		go func() { got <- second(l.TryAcquire(bg, "a", time.Minute)) }()
		synctest.Wait()
		require.Len(t, nodes[2].commands(command.Inspect), 2)
		require.NoError(t, l.Close(bg))
		all := errors.Join(<-got, <-got)
		require.Zero(t, time.Since(began), "nobody waited for the node timeout")
		require.ErrorIs(t, all, ErrClosed)
		require.ErrorIs(t, all, ErrHeld, "what was tried once had been refused")
		require.ErrorContains(t, all, `held by "she"`)
		synctest.Wait()
		require.Zero(t, booked(l))
	})
}

// H84: the error of a deadline also has the holder.
func TestTheErrorOfADeadlineNamesTheHolder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		_, err := fl.locker(WithOwner("she")).Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		fl.heldEverywhere("a")
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err = fl.process().locker().Acquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var he *HeldError
		require.ErrorAs(t, err, &he)
		require.Equal(t, "she", he.Owner)
		require.ErrorContains(t, err, `context deadline exceeded; until then: redlock: held by another client: acquire "a": 0 of 3 votes, 2 needed [`)
		require.ErrorContains(t, err, `: refused: held by "she" for 5`)
	})
}

// H84: the reason of a waiter in the local queue is that others hold the name or are ahead of it.
func TestAContextThatEndsInLineSaysHeld(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Hour) })
		first, stop := context.WithCancel(bg)
		go func() { _, _ = l.Acquire(first, "a", time.Minute) }()
		synctest.Wait()
		fl.forget()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, "queued after other requests")
		stop()
	})
}

// H84, H75: nothing is sent under a context that has ended already.
func TestNothingIsSentUnderAContextThatIsDone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.forget()
		ctx, cancel := context.WithCancelCause(bg)
		cancel(errStop)
		_, err1 := l.Acquire(ctx, "a", time.Minute)
		_, err2 := l.TryAcquire(ctx, "a", time.Minute)
		_, err3 := l.AcquireAll(ctx, []string{"b", "a"}, time.Minute)
		_, err4 := l.Inspect(ctx, "a")
		err5 := l.Healthy(ctx)
		err6 := l.Do(ctx, "a", time.Minute, nil)
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			require.ErrorIs(t, err, errStop)
			require.ErrorContains(t, err, "no attempt was made")
		}
		fl.answered()
		require.Zero(t, fl.count())
	})
}

// PEERS.md 5 (redsync): Acquire never succeeds after its context has ended, whichever vote it ends
// at. Its grants are undone.
func TestNoSuccessAfterTheContextEnded(t *testing.T) {
	for _, at := range []int{0, 1, 2} { // the node at whose vote the context ends; the second decides
		onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
			ctx, cancel := context.WithCancelCause(bg)
			nodes[at].script = func(_ *fakeNode, c *command.Command) bool {
				if c.Op == command.Acquire {
					cancel(errStop)
				}
				return false
			}
			for _, acquire := range []func(context.Context, string, time.Duration, ...LockOption) (*Lock, error){l.TryAcquire, l.Acquire} {
				k, err := acquire(ctx, "a", time.Minute)
				require.Nil(t, k)
				require.ErrorIs(t, err, errStop)
				for _, n := range nodes {
					require.Empty(t, n.held)
				}
			}
		})
	}
}

// H84, H19: the context ends an attempt with partial grants. They are undone on the nodes that
// granted and on those that had not answered.
func TestAnAttemptCutShortIsUndone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is frozen
		l := fl.locker()
		fl.masters[1].SetDelay(50 * time.Millisecond)
		fl.masters[2].Freeze()
		ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, []Outcome{OutcomeGranted, OutcomeUnknown, OutcomeUnknown}, votes(t, err))
		synctest.Wait()
		require.Zero(t, fl.keys("a")) // also on n2, whose grant is still on its way back
		fl.thaw()
		fl.answered()
		require.Len(t, tokens(fl.masters[2]), 1)
		require.Zero(t, fl.keys("a"))
	})
}

// The cause of a context may be an error of this library, and is the caller's.
func TestTheCauseOfAContextIsNotChanged(t *testing.T) {
	cause := &QuorumError{Op: "acquire", Reason: ErrHeld}
	last := &QuorumError{Op: "inspect", Reason: ErrNoQuorum}
	of := &waitError{op: "inspect", cause: cause, last: last}
	require.ErrorIs(t, withOp("check", of), ErrNoQuorum)
	require.Equal(t, "check", of.op)
	require.Equal(t, "check", last.Op)
	require.Equal(t, "acquire", cause.Op)
}
