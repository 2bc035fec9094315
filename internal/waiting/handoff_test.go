package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// held makes a contender hold names.
func held(t *Table, names ...string) *Hold {
	h := &Hold{Names: names, Began: t.now()}
	t.Acquired(h, nil)
	return h
}

// A release hands the lock to a head that waits and can have all of its names.
func TestAReleaseHandsTheLockToTheHead(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		first, second := enter(table, "a"), enter(table, "a")
		plan := table.Releasing(h, table.now(), 0)
		require.Same(t, first.attempt, plan.Attempt)
		require.True(t, plan.SameNames)
		requireTurn(t, false, first, second)
		plan.Deliver()
		require.Equal(t, outcome{attempt: first.attempt}, <-first.begun)
		requireTurn(t, false, second)
		first.Leave()
		require.Equal(t, outcome{}, <-second.begun)
		second.Leave()
	})
}

// A waiter whose context has ended gets no handoff, and neither does one that no attempt can be made
// for. The release is then announced, and the head attempts for itself.
func TestAHeadThatCannotReceiveGetsNoHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		c := enter(table, "a")
		c.attempt = nil
		plan := table.Releasing(h, table.now(), 0)
		require.Nil(t, plan.Attempt)
		plan.Deliver()
		require.Equal(t, outcome{}, <-c.begun)

		table.Acquired(h, &c.Waiter)
		c = enter(table, "a")
		table.mu.Lock()
		c.cancel() // the waiter cannot leave meanwhile
		require.False(t, c.canReceiveLocked())
		table.mu.Unlock()
		require.Equal(t, outcome{err: context.Canceled}, <-c.begun)
		c.Leave()
		require.Nil(t, table.Releasing(h, table.now(), 0).Attempt)
	})
}

// A head of several names gets no handoff while another lock of this process holds one of them.
func TestAHeadWithAHeldNameGetsNoHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		a, b := held(table, "a"), held(table, "b")
		both := enter(table, "a", "b")
		require.Nil(t, table.Releasing(a, table.now(), 0).Attempt)
		synctest.Wait()
		requireTurn(t, false, both)
		plan := table.Releasing(b, table.now(), 0)
		require.Same(t, both.attempt, plan.Attempt)
		require.False(t, plan.SameNames)
		plan.Deliver()
		require.NotNil(t, (<-both.begun).attempt)
		both.Leave()
	})
}

// A waiter that gives up while it is being handed the lock receives the attempt all the same, so
// that the attempt is undone.
func TestAWaiterThatGivesUpDuringAHandoffReceivesTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		c := enter(table, "a")
		plan := table.Releasing(h, table.now(), 0)
		c.cancel()
		synctest.Wait()
		require.Empty(t, c.begun)
		plan.Deliver()
		require.Equal(t, outcome{attempt: c.attempt}, <-c.begun)
		c.Leave()
	})
}

// panicsAtItsEnd is a user's own context that panics when it is asked why it has ended.
type panicsAtItsEnd struct {
	context.Context
	done chan struct{}
}

func (c panicsAtItsEnd) Done() <-chan struct{} { return c.done }
func (c panicsAtItsEnd) Err() error            { panic("the caller's context") }

// So does one whose context would panic. Nobody else would undo the attempt.
func TestAWaiterWhoseContextPanicsDuringAHandoffReceivesTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		c := &contender{table: table, attempt: new(vote.Round), begun: make(chan outcome, 1)}
		ctx := panicsAtItsEnd{bg, make(chan struct{})}
		go func() {
			attempt, err := table.Enter(ctx, &c.Waiter, []string{"a"}, c)
			c.begun <- outcome{attempt, err}
		}()
		synctest.Wait()
		plan := table.Releasing(h, table.now(), 0)
		close(ctx.done)
		synctest.Wait()
		plan.Deliver()
		require.Equal(t, outcome{attempt: c.attempt}, <-c.begun)
		c.Leave()
	})
}

// After a streak of holds the head must yield if other processes wait, so it gets no handoff.
func TestAfterAStreakTheHeadYieldsToOtherProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		table.NoteOthers(h, 0, command.OthersWait)
		c := enter(table, "a")
		time.Sleep(MaxStreakTime)
		plan := table.Releasing(h, table.now(), 0)
		require.Nil(t, plan.Attempt)
		require.True(t, plan.CountWaiters)
		began := time.Now()
		require.Equal(t, outcome{}, <-c.begun)
		require.Equal(t, minSlot, time.Since(began))
		c.Leave()
		time.Sleep(2 * Linger) // then the state of the streak is removed
	})
}

// The keys may be gone before, such as those of a lost lock, and the waiter has no poll.
func TestWhoDoesNotListenLooksBeforeTheEndOfAMinimumHold(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		time.Sleep(time.Second)
		h := held(table, "a")
		table.names["a"].unbroken = 1 // for so long no other process had a turn
		c := enter(table, "a")
		began := time.Now()
		require.Nil(t, table.Releasing(h, table.now(), time.Hour).Attempt)
		require.Equal(t, outcome{}, <-c.begun)
		require.Equal(t, MaxForeignPause, time.Since(began))
		c.Leave()
		time.Sleep(time.Hour + 2*Linger) // then the state of the streak is removed
	})
}

// The end of the Locker ends every wait.
func TestClosingEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, closeWaits := newTable()
		h := held(table, "a")
		c := enter(table, "a")
		closeWaits()
		require.Equal(t, outcome{err: errClosed}, <-c.begun)
		require.Equal(t, errClosed, table.Sleep(bg, time.Hour))
		c.Leave()
		table.Ended(h)
		table.Close()
	})
}

// The subscribers of a release do not include this Table's own subscription, once that is confirmed
// on a majority of the nodes for all of the names.
func TestOnlyAConfirmedSubscriptionIsCountedAsOurOwn(t *testing.T) {
	table, _ := newTable()
	require.False(t, table.channels.confirmedLocked([]string{"a"}))
	for i, want := range []bool{false, false, true, true} {
		table.channels.byName["redlock:free:a"] = &channel{confirmed: 1<<i - 1}
		require.Equal(t, want, table.channels.confirmedLocked([]string{"a"}))
		require.False(t, table.channels.confirmedLocked([]string{"a", "b"}))
	}
}

// Reasons take precedence in this order, and have these names.
func TestReasonsHaveNames(t *testing.T) {
	var texts []string
	for r := none; r <= ByHandoff; r++ {
		texts = append(texts, r.String())
	}
	require.Equal(t, []string{"none", "none", "none", "poll", "expiry", "subscription", "message", "handoff"}, texts)
}
