package waiting

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestWaitersGetTheirTurnInTheOrderOfEntering(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		var line []*contender
		for range 10 {
			line = append(line, enter(table, "a"))
		}
		for i := range line {
			requireTurn(t, true, line[i])
			requireTurn(t, false, line[i+1:]...)
			require.Equal(t, len(line)-i, table.Queued("a"))
			line[i].leave()
		}
		require.Zero(t, table.Queued("a"))
	})
}

func TestNamesDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		all := []*contender{enter(table, "a"), enter(table, "b"), enter(table, "c", "d")}
		requireTurn(t, true, all...)
		for _, c := range all {
			c.leave()
		}
	})
}

func TestAWaiterMayLeaveFromAnyPosition(t *testing.T) {
	const n = 5
	for leaver := range n {
		inBubble(t, func(t *testing.T, table *Table) {
			var line []*contender
			for range n {
				line = append(line, enter(table, "a"))
			}
			line[leaver].leave()
			line = append(line[:leaver:leaver], line[leaver+1:]...)
			for i := range line {
				requireTurn(t, true, line[i])
				requireTurn(t, false, line[i+1:]...)
				line[i].leave()
			}
		})
	}
}

func TestSeveralNamesGetTheirTurnAtTheHeadOfAll(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		a, b := enter(table, "a"), enter(table, "b")
		both := enter(table, "a", "b")
		after := enter(table, "b")
		b.leave()
		requireTurn(t, false, both, after) // a still has its turn
		a.leave()
		requireTurn(t, true, both)
		requireTurn(t, false, after)
		both.leave()
		requireTurn(t, true, after)
		after.leave()
	})
}

func TestOverlappingSetsInAnyOrderOfNamesDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		first, second := enter(table, "a", "b"), enter(table, "b", "a")
		requireTurn(t, true, first)
		requireTurn(t, false, second)
		first.leave()
		requireTurn(t, true, second)
		second.leave()
	})
}

func TestLeavingTwiceDoesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		a, b, c := enter(table, "a"), enter(table, "a"), enter(table, "a")
		a.leave()
		a.Leave()
		requireTurn(t, true, b)
		requireTurn(t, false, c)
		b.leave()
		c.leave()
	})
}

func TestAWaiterThatLeftEntersAgainAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		a, b := enter(table, "a"), enter(table, "a")
		a.leave()
		b.leave()
		other := enter(table, "a", "b")
		b.enter("b")
		requireTurn(t, false, b)
		other.leave()
		requireTurn(t, true, b)
		b.leave()
	})
}

// A waiter that has left keeps neither names nor neighbours alive.
func TestNothingIsLeftOfANameWhenItsLastWaiterHasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		var all []*contender
		for i := range 100 {
			all = append(all, enter(table, "shared", strconv.Itoa(i)))
		}
		names, _ := table.Size()
		require.Equal(t, len(all)+1, names)
		for _, c := range all {
			c.leave()
			require.Nil(t, c.entries)
			require.Zero(t, c.single)
		}
	})
}

// The holder of a name leaves the queue. The next waiter gets its turn only when the hold has ended.
func TestAHeadWaitsForTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, table *Table) {
		first, second := enter(table, "a", "b"), enter(table, "b")
		h := &Hold{Names: []string{"a", "b"}}
		table.Acquired(h, &first.Waiter)
		synctest.Wait()
		require.True(t, second.atHead())
		requireTurn(t, false, second)
		table.Ended(h)
		synctest.Wait()
		requireTurn(t, true, second)
		second.leave()
	})
}

var names = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// holders counts the holders of each name.
type holders [8]atomic.Int32

func (h *holders) enter(set []int) (alone bool) {
	alone = true
	for _, i := range set {
		alone = h[i].Add(1) == 1 && alone
	}
	return alone
}

func (h *holders) leave(set []int) {
	for _, i := range set {
		h[i].Add(-1)
	}
}

// contend has its turn with random sets of one to four names, one after the other. Sometimes it
// leaves without using its turn.
func contend(t *testing.T, table *Table, h *holders, seed uint64) (turns int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		c := &contender{}
		set := r.Perm(len(names))[:1+r.IntN(4)]
		var wanted []string
		for _, i := range set {
			wanted = append(wanted, names[i])
		}
		_, err := table.Enter(bg, &c.Waiter, wanted, c)
		if err != nil {
			t.Error(err)
		}
		if r.IntN(5) > 0 {
			if !h.enter(set) {
				t.Errorf("not alone in %v", wanted)
			}
			runtime.Gosched()
			h.leave(set)
			turns++
		}
		c.Leave()
	}
	return turns
}

func TestOverlappingSetsMakeProgressAndExcludeEachOther(t *testing.T) {
	// A bubble detects a deadlock at once.
	inBubble(t, func(t *testing.T, table *Table) {
		var h holders
		var turns atomic.Int64
		var all sync.WaitGroup
		for seed := range uint64(32) {
			all.Go(func() { turns.Add(int64(contend(t, table, &h, seed))) })
		}
		all.Wait()
		require.Greater(t, turns.Load(), int64(32*100))
	})
}

func TestALeaveThatRacesWithTheTurnLosesNoTurn(t *testing.T) {
	for range 200 {
		inBubble(t, func(t *testing.T, table *Table) {
			head, quitter, last := enter(table, "a"), enter(table, "a"), enter(table, "a")
			quitter.cancel()
			var both sync.WaitGroup
			both.Go(head.Leave)
			both.Go(func() {
				<-quitter.begun
				quitter.Leave()
			})
			both.Wait()
			synctest.Wait()
			requireTurn(t, true, last)
			last.leave()
		})
	}
}

// Beside the state of each name, a turn for several names allocates once.
func TestAnUncontendedTurnAllocatesTheStatesOfItsNames(t *testing.T) {
	table, _ := newTable()
	for most, names := range map[float64][]string{1: {"a"}, 4: {"a", "b", "c"}} {
		c := &contender{}
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			_, _ = table.Enter(bg, &c.Waiter, names, c)
			c.Leave()
		}), most)
	}
}

// An acquisition without contention and its release.
func BenchmarkUncontended(b *testing.B) {
	table, _ := newTable()
	h := &Hold{Names: []string{"a"}}
	c := &contender{}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = table.Enter(bg, &c.Waiter, h.Names, c)
		table.Acquired(h, &c.Waiter)
		table.Releasing(h, 0, 0)
	}
}

// Each name is used once, as with a lock for each of many objects.
func BenchmarkFreshNames(b *testing.B) {
	table, _ := newTable()
	fresh := make([][]string, 1<<16)
	for i := range fresh {
		fresh[i] = []string{"orders:" + strconv.Itoa(i)}
	}
	c := &contender{}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		_, _ = table.Enter(bg, &c.Waiter, fresh[i%len(fresh)], c)
		c.Leave()
	}
}
