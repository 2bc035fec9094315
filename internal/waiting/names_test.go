package waiting

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// A lock that the library has ended is undone when another lock of this process may have its name already. Otherwise
// the undo would hand the other lock's name to a waiter, whose attempt is refused.
func TestTheEndOfAnEarlierHoldLeavesTheNextHolderItsName(t *testing.T) {
	for what, end := range map[string]func(table *Table, h *Hold) *vote.Round{
		"released": func(table *Table, h *Hold) *vote.Round { return table.Releasing(h, table.now(), 0).Attempt },
		"ended":    func(table *Table, h *Hold) *vote.Round { table.Ended(h); return nil },
	} {
		inBubble(t, func(t *testing.T, table *Table) {
			earlier := held(table, "a", "b")
			next := held(table, "a")
			c := enter(table, "a")
			require.Nil(t, end(table, earlier), what)
			synctest.Wait()
			requireTurn(t, false, c)
			table.Ended(next)
			synctest.Wait()
			requireTurn(t, true, c)
			c.leave()
		})
	}
}

// Otherwise this process would record the second name as held forever, and could not acquire it again.
func TestAHoldEndsForAllOfItsNames(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a", "b", "c")
		table.Ended(held(table, "a")) // no state is left of this name
		b, c := enter(table, "b"), enter(table, "c")
		table.Ended(h)
		synctest.Wait()
		requireTurn(t, true, b, c)
		b.leave()
		c.leave()
	})
}

// Otherwise a waiter for the second name would wait for a poll.
func TestAReleaseOfSeveralNamesWakesTheHeadsThatGetNoHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a", "b")
		a, b := enter(table, "a"), enter(table, "b")
		plan := table.Releasing(h, table.now(), 0)
		require.Same(t, a.attempt, plan.Attempt)
		synctest.Wait()
		requireTurn(t, true, b)
		plan.Deliver()
		require.NotNil(t, (<-a.begun).attempt)
		a.Leave()
		b.leave()
	})
}

// Otherwise an attempt on several names would be sent in vain while this process holds one of them.
func TestAWaiterForSeveralNamesWaitsForTheHolderOfEach(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		inBubble(t, func(t *testing.T, table *Table) {
			h := held(table, name)
			both := enter(table, "a", "b")
			requireTurn(t, false, both)
			table.Ended(h)
			synctest.Wait()
			requireTurn(t, true, both)
			both.leave()
		})
	}
}

// Otherwise a process that takes several names again and again would starve the others that wait for one of them.
func TestAWaiterForSeveralNamesYieldsForEach(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		inBubble(t, func(t *testing.T, table *Table) {
			h := held(table, "a", "b")
			table.NoteOthers(&Hold{Names: []string{name}}, 0, command.OthersWait)
			time.Sleep(MaxStreakTime)
			other := enter(table, "a", "b")
			plan := table.Releasing(h, table.now(), 0)
			require.Nil(t, plan.Attempt, "%s is due to others", name)
			require.True(t, plan.CountWaiters)
			began := time.Now()
			require.Equal(t, outcome{}, <-other.begun)
			require.Equal(t, minSlot, time.Since(began))
			other.Leave()
			time.Sleep(2 * Linger)
		})
	}
}

// Otherwise a release would announce nothing although the streak of a name is over.
func TestAReleaseCountsWaitersIfTheStreakOfAnyNameIsOver(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		inBubble(t, func(t *testing.T, table *Table) {
			h := held(table, "a", "b")
			table.names[name].holds = MaxStreak - 1
			require.True(t, table.Releasing(h, table.now(), 0).CountWaiters)
		})
	}
}

// Otherwise a process whose nodes are distant would never yield: each handoff would begin a new streak.
func TestAHandoffContinuesTheStreak(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h, c := held(table, "a"), enter(table, "a")
		plan := table.Releasing(h, table.now(), 0)
		time.Sleep(100 * time.Millisecond) // the round trip of the release and the acquire
		plan.Deliver()
		<-c.begun
		next := &Hold{Names: []string{"a"}, Began: table.now(), HandedOff: true}
		table.Acquired(next, &c.Waiter)
		require.EqualValues(t, 1, table.names["a"].holds)
		table.Ended(next)
	})
}

// Otherwise a process would continue to yield for a name without waiters, or not begin to.
func TestTheNodesReportOfWaitersConcernsAReleasedNameThatIsStillKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a", "b")
		table.NoteOthers(&Hold{Names: []string{"a"}}, 0, command.OthersWait)
		table.Releasing(h, table.now(), 0)
		require.NotNil(t, table.names["a"], "others waited")
		require.Nil(t, table.names["b"])
		table.NoteOthers(h, 0, command.NoOthers)
		require.Nil(t, table.names["a"])
		h = held(table, "b")
		table.Releasing(h, table.now(), 0)
		require.Empty(t, table.names)
		table.NoteOthers(h, 0, command.OthersWait)
		require.True(t, table.names["b"].others)
		table.NoteOthers(&Hold{Names: []string{"b"}}, 0, command.NoOthers)
	})
}

// Otherwise a process would continue to yield for a name without waiters.
func TestTheNodesReportOfWaitersConcernsAllNames(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		b, c := held(table, "b"), held(table, "c")
		all := &Hold{Names: []string{"a", "b", "c"}} // no state is left of a
		table.NoteOthers(&Hold{Names: []string{"b", "c"}}, 0, command.OthersWait)
		require.True(t, table.names["b"].others)
		require.True(t, table.names["c"].others)
		table.NoteOthers(all, 0, command.NoOthers)
		require.False(t, table.names["b"].others)
		require.False(t, table.names["c"].others)
		table.Ended(b)
		table.Ended(c)
	})
}

// Otherwise the time of a hold would count as a wait, and the process would go before all others next time.
func TestAHoldEndsTheWaitForEachOfItsNames(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		time.Sleep(time.Millisecond) // the instant 0 stands for none
		h, c := held(table, "a"), enter(table, "a", "b")
		behind := enter(table, "a", "b")
		for _, s := range table.names {
			s.waits(table.now())
		}
		time.Sleep(10 * time.Millisecond)
		plan := table.Releasing(h, table.now(), 0)
		plan.Deliver()
		<-c.begun
		next := &Hold{Names: []string{"a", "b"}, Began: table.now(), HandedOff: true}
		table.Acquired(next, &c.Waiter)
		for name, s := range table.names {
			require.Zero(t, s.joined, name)
			require.Equal(t, name == "b", s.waited == 10*time.Millisecond, "the hold of a is part of a streak")
		}
		behind.leave()
		table.Ended(next)
	})
}

// Otherwise the time until the next waiter comes would count as a wait.
func TestWhoGivesUpDoesNotWaitAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		time.Sleep(time.Millisecond)
		h := held(table, "a")
		first, second := enter(table, "a"), enter(table, "a")
		s := table.names["a"]
		s.waits(table.now())
		first.leave()
		require.NotZero(t, s.joined, "the process still waits")
		second.leave()
		require.Zero(t, s.joined)
		table.Ended(h)
	})
}

// Otherwise calls that give up and come again would go behind all others each time. The time in which none waits does not count,
// and neither does a wait that ended with the lock, or long ago.
func TestACallContinuesTheWaitOfOneThatGaveUp(t *testing.T) {
	for pause, age := range map[time.Duration]time.Duration{Linger - 1: 3 * time.Second, Linger: 0} {
		for _, acquired := range []bool{false, true} {
			inBubble(t, func(t *testing.T, table *Table) {
				time.Sleep(time.Millisecond)
				h := held(table, "a")
				s := table.names["a"]
				w := enter(table, "a")
				s.waits(table.now())
				time.Sleep(3 * time.Second)
				w.leave()
				want := age
				if acquired {
					table.Acquired(h, nil)
					want = 0
				}
				time.Sleep(pause)
				w = enter(table, "a")
				s.waits(table.now())
				require.Equal(t, want, s.age(table.now()), "after %v, acquired %v", pause, acquired)
				w.leave()
				table.Ended(h)
			})
		}
	}
}

// What the nodes can't know counts if another process was seen within a second.
func TestWhatIsUnknownCountsAfterAnotherProcessWasSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		time.Sleep(time.Millisecond) // the instant 0 stands for none
		h := held(table, "a")
		s := table.names["a"]
		note := func(others command.Others) bool {
			table.NoteOthers(h, 0, others)
			return s.others
		}
		require.False(t, note(command.OthersUnknown))
		require.True(t, note(command.OthersWait))
		require.False(t, note(command.NoOthers))
		s.lostTo(table.now())
		require.True(t, note(command.OthersUnknown))
		time.Sleep(Linger)
		require.False(t, note(command.OthersUnknown))
		table.NoteOthers(&Hold{Names: []string{"b"}}, 0, command.OthersUnknown)
		require.Nil(t, table.names["b"], "a lone process needs no pause between its holds")
		table.Ended(h)
		time.Sleep(2 * Linger)
	})
}

// Otherwise this process would yield for the second name although the others have just had their turn.
func TestARefusalEndsTheStreaksOfAllNames(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		c := enter(table, "a", "b", "c")
		h := held(table, "c")
		for _, s := range table.names {
			s.holds, s.ahead = 5, 5
		}
		c.failed(verdict.Contention{Why: verdict.Split})
		require.Zero(t, table.names["a"].holds)
		require.Zero(t, table.names["b"].holds)
		require.EqualValues(t, 5, table.names["c"].holds, "the refusal came from a lock of this process")
		require.Less(t, table.names["a"].ahead, 4.5, "it did not hear of their releases, so a refusal is a turn of theirs")
		require.EqualValues(t, 5, table.names["c"].ahead)
		c.leave()
		table.Ended(h)
	})
}

// Otherwise a waiter that has ended would be given the lock, and the next one would wait meanwhile.
func TestAWaiterWhoseContextHasEndedCannotReceive(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		h := held(table, "a")
		c := enter(table, "a")
		table.mu.Lock()
		table.names["a"].holder = nil
		before := c.canReceiveLocked()
		c.cancel() // the waiter cannot leave meanwhile
		after := c.canReceiveLocked()
		table.mu.Unlock()
		<-c.begun
		c.Leave()
		table.Ended(h)
		require.True(t, before)
		require.False(t, after)
	})
}

// Otherwise a timer would keep a closed Locker alive.
func TestNothingIsSetForANameThatIsNotKept(t *testing.T) {
	for what, end := range map[string]func(table *Table){
		"nobody waits any more": func(table *Table) { table.NoteOthers(&Hold{Names: []string{"a"}}, 0, command.NoOthers) },
		"closed":                func(table *Table) { table.Close() },
	} {
		inBubble(t, func(t *testing.T, table *Table) {
			h := held(table, "a")
			table.NoteOthers(h, 0, command.OthersWait)
			table.Ended(h)
			require.Equal(t, 1, table.cfg.Timers.Len())
			end(table)
			names, _ := table.Size()
			require.Zero(t, names, what)
			require.Zero(t, table.cfg.Timers.Len(), what)
		})
	}
}

// Otherwise a timer that fires late would remove the state of a name that is held again.
func TestATimerOfAnEarlierStateLeavesTheNextAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		earlier := &nameState{table: table, name: "a"}
		h := held(table, "a")
		earlier.Fire(nil)
		require.NotNil(t, table.names["a"])
		table.Ended(h)
	})
}

// Several calls of a process for the same names that give up make no attempt each.
func TestAWaiterForSeveralNamesGoesOnWhereAnotherStopped(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		held := func(tokens ...string) verdict.Contention {
			return verdict.Contention{Why: verdict.Held, Stuck: true, FreeIn: -1, Tokens: tokens}
		}
		first, next := enter(table, "a", "b"), enter(table, "a", "b")
		other := enter(table, "b", "a") // in another order: it would take the tokens for others
		first.failed(held("one", "two"))
		confirm(nodes, all, all+"a", all+"b")
		first.fails(held("three", "two"))
		requireTurn(t, false, first)
		first.leave()
		require.True(t, next.atHead())
		requireTurn(t, false, next, other)
		require.Equal(t, []string{"b"}, next.awaits)
		next.leave()
		requireTurn(t, true, other)
		other.leave()
		time.Sleep(2 * Linger)
	})
}

// Otherwise a trace would show a call that continues, and does not.
func TestAWaiterThatLetsOthersGoFirstIsNotSaidToContinue(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		time.Sleep(time.Millisecond)
		c := enter(table, "a")
		c.fails(verdict.Contention{Why: verdict.Split})
		s := table.names["a"]
		table.mu.Lock()
		s.mustYield, s.others, s.releasedAt, s.unbroken = true, true, table.now(), table.now()
		s.waiters, s.before = 4, 4
		c.wakeLocked(ByMessage)
		table.mu.Unlock()
		synctest.Wait()
		require.Zero(t, c.goesOn.Load(), "others go first")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, c.begun)
		require.EqualValues(t, 1, c.goesOn.Load())
		c.leave()
		time.Sleep(2 * Linger)
	})
}
