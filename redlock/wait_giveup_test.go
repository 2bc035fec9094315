package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// hesitant is a node that calls a function before it submits a release and the next attempt.
type hesitant struct {
	command.Voter
	before func()
}

func (n *hesitant) Submit(c, behind *command.Command) error {
	if f := n.before; f != nil && behind != nil {
		n.before = nil
		f()
	}
	return n.Voter.Submit(c, behind)
}

// The waiter that a lock is handed to gives up before the release is sent. That release is not
// announced, because an attempt was to follow it. The next waiter must get the lock all the same.
func TestAWaiterThatGivesUpDuringAHandoffLeavesTheLockToTheNext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		slow := &hesitant{Voter: fl.voter(0)}
		l, err := newOver([]command.Voter{slow, fl.voter(1), fl.voter(2)}, WithClock(fl.clock))
		require.NoError(fl.t, err)
		fl.t.Cleanup(func() { fl.close(l) })
		k := take(fl.t, l, "a", time.Hour)
		ctx, cancel := context.WithCancelCause(bg)
		first := waitingFor(ctx, l, "a")
		next := waitingFor(bg, l, "a")
		slow.before = func() { cancel(errStop); time.Sleep(5 * time.Millisecond) }
		released := time.Now()
		require.NoError(fl.t, k.Release(bg))
		require.ErrorIs(fl.t, (<-first).err, errStop)
		require.LessOrEqual(fl.t, gets(fl.t, next).at.Sub(released), 100*time.Millisecond)
	})
}

// It has made no attempt of its own.
func TestACallBehindOneThatGaveUpNamesTheHolder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(fl.t, fl.process().locker(), "a", time.Hour)
		l := fl.process().locker()
		var all sync.WaitGroup
		for _, wait := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond} {
			all.Go(func() {
				_, err := l.Acquire(bg, "a", time.Minute, WithWait(wait))
				var held *HeldError
				require.ErrorAs(fl.t, err, &held, "%v: %v", wait, err)
				require.Equal(fl.t, k.ID(), held.ID)
			})
			pass(20 * time.Millisecond) // it is at the end of the queue
		}
		all.Wait()
		fl.answered()
		fl.each(func(m *fakeredis.Master) { // an attempt may be lost before it is sent to each node
			require.LessOrEqual(fl.t, m.Commands()["SET"], 2, "the holder's, and one attempt")
		})
		require.NoError(fl.t, k.Release(bg))
	})
}

// The first one has not waited, so nothing is known of when to try. The channel is confirmed since the wait before.
func TestAWaiterBehindACallThatEndsInItsFirstAttemptMakesOne(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		late.LeaveOut(fl.t, "the first attempt must end in time on each master")
		k := take(fl.t, fl.process().locker(), "a", time.Hour)
		l := fl.process().locker()
		again := waitingFor(bg, l, "a")
		require.NoError(fl.t, k.Release(bg))
		w := gets(fl.t, again)
		require.NoError(fl.t, w.k.Release(bg))
		synctest.Wait()
		require.Len(fl.t, subscribers(fl.masters[0]), 1, "it lingers")

		fl.each(func(m *fakeredis.Master) { m.SetDelay(5 * time.Millisecond) })
		var first, next error
		var all sync.WaitGroup
		all.Go(func() { _, first = l.Acquire(bg, "a", time.Minute, WithWait(3*time.Millisecond)) })
		synctest.Wait() // it has sent its attempt
		began := time.Now()
		all.Go(func() { _, next = l.Acquire(bg, "a", time.Minute) })
		all.Wait()
		require.ErrorIs(fl.t, first, ErrNoQuorum)
		require.NoError(fl.t, next)
		require.LessOrEqual(fl.t, time.Since(began), 100*time.Millisecond)
	})
}
