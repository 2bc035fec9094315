//go:build !race

package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// race runs contenders of several Lockers on the same names and records the order of the holders.
type race struct {
	hold time.Duration
	opts []LockOption
	h    history
	mu   sync.Mutex // guards the fields below
	who  []int      // the Lockers, in the order in which they held
	gaps []time.Duration
	free time.Time // when it was last released
}

// run lets n contenders of each Locker acquire and release a name for d.
func (r *race) run(lockers []*Locker, n int, d time.Duration) {
	ctx, cancel := context.WithTimeout(bg, d)
	defer cancel()
	var all sync.WaitGroup
	for i, l := range lockers {
		for range n {
			all.Go(func() {
				for r.turn(ctx, l, i) {
				}
			})
		}
	}
	all.Wait()
}

func (r *race) turn(ctx context.Context, l *Locker, i int) bool {
	k, err := l.Acquire(ctx, "a", time.Minute, r.opts...)
	if err != nil {
		return false
	}
	sp := r.h.begin("a", k)
	r.mu.Lock()
	r.who = append(r.who, i)
	if !r.free.IsZero() {
		r.gaps = append(r.gaps, time.Since(r.free))
	}
	r.mu.Unlock()
	time.Sleep(r.hold)
	r.mu.Lock()
	r.free = time.Now()
	r.mu.Unlock()
	r.h.end(sp)
	return k.Release(bg) == nil
}

// turns returns the longest streak of any Locker, and the number of holds of each.
func (r *race) turns(lockers int) (longest int, turns []int) {
	turns = make([]int, lockers)
	row := 0
	for n, i := range r.who {
		turns[i]++
		if row++; n > 0 && r.who[n-1] != i {
			row = 1
		}
		longest = max(longest, row)
	}
	return longest, turns
}

// docs/dev/rules.md rule 21: a lock stays in a process for 16 holds or 50 ms, plus the few holds
// until the process notices that others wait.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	for hold, holds := range map[time.Duration]int{time.Millisecond: 300, 10 * time.Millisecond: 150, 200 * time.Millisecond: 100} {
		inBubble(t, 3, func(fl *testbed) {
			lockers := []*Locker{fl.process().locker(), fl.process().locker()}
			fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
			r := race{hold: hold}
			r.run(lockers, 4, time.Duration(holds)*hold)
			longest, turns := r.turns(2)
			most := min(waiting.MaxStreak, int(waiting.MaxStreakTime/hold)+1)
			fl.t.Log(hold, "longest", longest, "of", 2*most, "turns", turns)
			require.NoError(fl.t, r.h.overlap())
			if !late.On() { // a late node serves one of the processes later than the other
				require.LessOrEqual(fl.t, longest, 5*most+1)
				require.Greater(fl.t, min(turns[0], turns[1]), len(r.who)*2/5)
			}
		})
	}
}

// A streak of holds that take no time ends as well. That must also be so if each contender acquires
// the name again, so that no waiter of the process queues while it is held.
func TestRowsOfInstantHoldsEnd(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes of which one is farther away")
	t.Parallel()
	for _, contenders := range []int{2, 8} {
		inBubble(t, 3, func(fl *testbed) {
			lockers := []*Locker{fl.process().locker(), fl.process().far(200 * time.Microsecond)}
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			r := race{}
			r.run(lockers, contenders, 100*time.Millisecond)
			longest, turns := r.turns(2)
			fl.t.Log(contenders, "longest", longest, "turns", turns)
			require.Less(fl.t, longest, len(r.who)/3)
			require.Greater(fl.t, min(turns[0], turns[1]), len(r.who)/5)
			require.NoError(fl.t, r.h.overlap())
		})
	}
}

// distant is a connection on which everything arrives d later than on others.
type distant struct {
	net.Conn
	d time.Duration
}

func (c distant) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(c.d)
	return n, err
}

// far makes a Locker that is farther from the masters than others.
func (fl *testbed) far(d time.Duration) *Locker {
	nodes := make([]*pool.Node, len(fl.masters))
	for i, m := range fl.masters {
		n, err := pool.Open(pool.Config{Name: m.Name(), Address: m.Addr(), Clock: fl.clock, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := m.Dial(ctx, network, address)
			return distant{c, d}, err
		}})
		require.NoError(fl.t, err)
		nodes[i] = n
	}
	l, err := New(nodes, WithClock(fl.clock))
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	time.Sleep(time.Second)
	return l
}

// A process near the nodes would always be faster than a distant one, which must get the lock as
// well. A process that yielded in vain yields for longer the next time.
func TestADistantProcessIsNotStarved(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		lockers := []*Locker{fl.process().locker(), fl.process().far(10 * time.Millisecond)}
		fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
		r := race{hold: time.Millisecond}
		r.run(lockers, 4, time.Second)
		longest, turns := r.turns(2)
		t.Log("longest", longest, "turns", turns)
		require.LessOrEqual(t, longest, 10*waiting.MaxStreak)
		require.Greater(t, slices.Min(turns), 10)
	})
}

// How long a release takes must not count as the time that was left to others, and it must not end a streak: one of
// two processes would never have the lock.
func TestOfTwoDistantProcessesNoneStarves(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes of which one is farther away")
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct{ near, far, hold time.Duration }{
		{ms, 3 * ms / 2, ms}, {2 * ms, 3 * ms, 60 * ms}, {ms, 5 * ms, 30 * ms}, {5 * ms, 40 * ms, 30 * ms}, {20 * ms, 40 * ms, 0},
	} {
		t.Run(fmt.Sprintf("%v and %v away, holds of %v", c.near, c.far, c.hold), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				lockers := []*Locker{fl.process().far(c.near), fl.process().far(c.far)}
				fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
				r := race{hold: c.hold}
				r.run(lockers, 1, 9*time.Second)
				_, turns := r.turns(2)
				require.Greater(fl.t, turns[1], 12, "of %v", turns)
				require.NoError(fl.t, r.h.overlap())
			})
		})
	}
}

// A release takes a round trip. Others hear of it when the process that released is answered, so its own pause must not be
// over by then.
func TestProcessesThatAreEquallyFarTakeTurns(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of processes that are equally far away")
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		trip, hold time.Duration
		processes  int
	}{{20 * ms, 20 * ms, 4}, {60 * ms, 20 * ms, 8}, {60 * ms, 5 * ms, 8}} {
		t.Run(fmt.Sprintf("%d processes, %v away, holds of %v", c.processes, c.trip, c.hold), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				fl.each(func(m *fakeredis.Master) { m.SetDelay(c.trip) })
				var lockers []*Locker
				for range c.processes {
					lockers = append(lockers, fl.process().locker())
				}
				r := race{hold: c.hold}
				r.run(lockers, 1, 40*time.Second)
				_, turns := r.turns(c.processes)
				part := float64(slices.Min(turns)*len(turns)) / float64(len(r.who))
				fl.t.Logf("%v: %.2f", turns, part)
				require.Greater(fl.t, part, 0.6, "of %v", turns)
			})
		})
	}
}

// Of the waiters of one process the next one goes on where the first one stopped. If each that comes to the head of the
// queue tried at once, a process whose calls have deadlines would take the turns of others.
func TestAProcessWhoseCallsGiveUpTakesNoTurnsOfOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		r := race{hold: 5 * time.Millisecond}
		hasty := race{hold: r.hold, opts: []LockOption{WithWait(50 * time.Millisecond)}}
		var all sync.WaitGroup
		first := fl.process().locker()
		for range 30 {
			all.Go(func() {
				for ctx.Err() == nil {
					hasty.turn(ctx, first, 0)
				}
			})
		}
		for i := range 5 {
			l := fl.process().locker()
			all.Go(func() {
				for r.turn(ctx, l, i) {
				}
			})
		}
		all.Wait()
		_, turns := r.turns(5)
		fl.t.Logf("%d beside %v", len(hasty.who), turns)
		require.Less(fl.t, len(hasty.who), waiting.MaxStreak*slices.Min(turns), "beside %v: its waiters may hold the name so often in a row", turns)
	})
}

// All listen when a hold of more than a second ends, and few of them try.
func TestLongHoldsOfManyProcessesAreNoHerd(t *testing.T) {
	late.LeaveOut(t, "it counts attempts")
	t.Parallel()
	const n = 40
	for _, hold := range []time.Duration{time.Second, 1100 * time.Millisecond} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
			var all []*Locker
			for range n {
				all = append(all, fl.process().locker())
			}
			r := race{hold: hold}
			var ended sync.WaitGroup
			ended.Go(func() { r.run(all, 1, 3*n*hold) })
			pass(2 * n * hold) // at first all have waited for as long
			before := fl.count("SET")
			ended.Wait()
			attempts := float64(fl.count("SET")-before) / float64(3*n)
			_, turns := r.turns(n)
			fl.t.Logf("%d holds, %.1f attempts for each of the last %d; turns %v", len(r.who), attempts, n, turns)
			require.Greater(fl.t, len(r.who), n*27/10)
			require.Less(fl.t, attempts, 23.0)
			require.NoError(fl.t, r.h.overlap())
		})
	}
}

// All know when the keys of a released lock end. They try in the order of other releases: if all tried at that instant, the
// process that released it would be the first again and again.
func TestTheEndOfAMinimumHoldHasAnOrder(t *testing.T) {
	late.LeaveOut(t, "it counts turns")
	t.Parallel()
	for _, c := range []struct {
		near, far int
		hold      time.Duration
		turns     int     // for each of them
		least     int     // turns that any of them has
		attempts  float64 // for each hold
	}{
		{20, 0, 500 * time.Millisecond, 5, 1, 25},
		{60, 0, 1500 * time.Millisecond, 2, 0, 54},
		{1, 1, 500 * time.Millisecond, 10, 5, 4},
		{1, 1, 2 * time.Second, 10, 5, 4},
	} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			var all []*Locker
			for range c.near {
				all = append(all, fl.process().locker())
			}
			for range c.far {
				all = append(all, fl.process().far(5*time.Millisecond))
			}
			fl.forget()
			n := c.turns * len(all)
			r := race{hold: c.hold / 10, opts: []LockOption{WithMinHold(c.hold)}}
			r.run(all, 1, time.Duration(n)*c.hold)
			_, turns := r.turns(len(all))
			attempts := float64(fl.count("SET")) / float64(3*len(r.who))
			fl.t.Logf("%+v: %d holds of %d: %v, %.1f attempts each", c, len(r.who), n, turns, attempts)
			require.GreaterOrEqual(fl.t, len(r.who), n*9/10)
			require.GreaterOrEqual(fl.t, slices.Min(turns), c.least)
			require.Less(fl.t, attempts, c.attempts)
		})
	}
}

// Others listen and do not come. So those that come have more than what looks like
// their share, and each leaves the others the longest slots. They take turns all the same.
func TestWhoListensAndDoesNotComeTakesNoTurnsFromOthers(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes of which one is farther away")
	t.Parallel()
	for _, hold := range []time.Duration{300 * time.Millisecond, waiting.Linger * 6 / 5} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			for range 3 {
				fl.each(func(m *fakeredis.Master) { subscribe(fl.t, m, "a") })
			}
			r := race{hold: hold}
			r.run([]*Locker{fl.process().locker(), fl.process().far(2 * time.Millisecond)}, 1, 150*hold)
			row, turns := r.turns(2)
			fl.t.Logf("holds of %v: %v, longest row %d", hold, turns, row)
			require.Greater(fl.t, slices.Min(turns), len(r.who)/3)
			require.LessOrEqual(fl.t, row, 10)
		})
	}
}

// Otherwise each release would leave it its time: five processes made 376 of these 925 holds, and one 976 of 4167 that take a
// millisecond.
func TestWhoWaitsForAnotherNameIsLeftNoTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processes int
		hold      time.Duration
		least     int
	}{{1, time.Millisecond, 4100}, {3, 20 * time.Millisecond, 230}, {5, 5 * time.Millisecond, 890}} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			other := take(fl.t, fl.process().locker(), "b", time.Hour)
			both := wants(bg, fl.process().locker(), "a", "b")
			var all []*Locker
			for range c.processes {
				all = append(all, fl.process().locker())
			}
			r := race{hold: c.hold}
			r.run(all, 1, 5*time.Second)
			fl.t.Logf("%d processes, holds of %v: %d", c.processes, c.hold, len(r.who))
			require.Greater(fl.t, len(r.who), c.least)
			require.NoError(fl.t, other.Release(bg))
			require.NoError(fl.t, gets(fl.t, both).k.Release(bg))
		})
	}
}

// Others wait for the name that most contend for. A release of the other name does not take the time from them.
func TestWhoWaitsForSeveralNamesLeavesEachItsTime(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of processes that are equally far away")
	t.Parallel()
	const hold = 30 * time.Millisecond
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		ctx, cancel := context.WithTimeout(bg, 200*hold)
		defer cancel()
		var all sync.WaitGroup
		for range 2 {
			l := fl.process().locker()
			all.Go(func() {
				for {
					k, err := l.AcquireAll(ctx, []string{"a", "b"}, time.Minute)
					if err != nil {
						return
					}
					time.Sleep(rand.N(2 * hold))
					assert.NoError(fl.t, k.Release(bg))
				}
			})
		}
		var one []*Locker
		for range 4 {
			one = append(one, fl.process().locker())
		}
		r := race{hold: hold}
		r.run(one, 1, 200*hold)
		all.Wait()
		_, turns := r.turns(len(one))
		fl.t.Logf("%v turns of about 200", turns)
		require.Greater(fl.t, slices.Min(turns), 20)
	})
}

// The nearer process subscribes when it lets others go first: it does not listen any more after a hold that is longer
// than waiting.Linger. The confirmation of the subscription must not end the pause.
func TestADistantProcessHasItsTurnsAlsoIfHoldsAreLong(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes of which one is farther away")
	t.Parallel()
	const hold = waiting.Linger * 11 / 10
	for _, goroutines := range []int{1, 4} {
		inBubble(t, 3, func(fl *testbed) {
			lockers := []*Locker{fl.process().locker(), fl.process().far(2 * time.Millisecond)}
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			r := race{hold: hold}
			r.run(lockers, goroutines, 40*hold)
			longest, turns := r.turns(2)
			fl.t.Logf("%d goroutines: %v, longest row %d", goroutines, turns, longest)
			require.Greater(fl.t, min(turns[0], turns[1]), len(r.who)/3)
			require.LessOrEqual(fl.t, longest, 8)
			require.NoError(fl.t, r.h.overlap())
		})
	}
}

// Processes that are near the nodes take turns, and each has waited for as long as the one before it. So ages do not
// show that others wait which are a little farther away: they would wait until the near ones end.
func TestProcessesThatAreNearDoNotTakeTurnsAmongThemselves(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of processes of which some are farther away")
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		far        []time.Duration
		goroutines int
		hold       time.Duration
		seconds    int     // for so long that chance decides little
		least      float64 // of any process, as part of its share
	}{
		{[]time.Duration{0, ms / 2, 0}, 1, 30 * ms, 3, 0.6},
		{[]time.Duration{0, ms / 2, 0, ms / 2}, 1, 30 * ms, 6, 0.6},
		{[]time.Duration{0, ms / 2, 0, ms / 2}, 4, 5 * ms, 6, 0.5},
		{[]time.Duration{0, ms / 2, 0, ms / 2}, 1, 5 * ms, 3, 0.3},
		{[]time.Duration{0, 20 * ms, 0, 20 * ms}, 1, 30 * ms, 15, 0.4},
		{[]time.Duration{40 * ms, 0, 0, 0}, 1, 2 * ms, 6, 0.03},
	} {
		t.Run(fmt.Sprintf("%v away, %d goroutines, holds of %v", c.far, c.goroutines, c.hold), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				var lockers []*Locker
				for _, d := range c.far {
					lockers = append(lockers, fl.process().far(d))
				}
				fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
				r := race{hold: c.hold}
				r.run(lockers, c.goroutines, time.Duration(c.seconds)*time.Second)
				_, turns := r.turns(len(lockers))
				part := float64(slices.Min(turns)*len(turns)) / float64(len(r.who))
				fl.t.Logf("%v: %.2f", turns, part)
				require.Greater(fl.t, part, c.least, "of %v", turns)
				require.NoError(fl.t, r.h.overlap())
			})
		})
	}
}

// docs/dev/hazards.md H80: 32 contenders run in four processes, 5 ms away from the nodes. A free
// lock must have a new holder within a few round trips.
func TestSplitVotesEndWithinAFewRoundTrips(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		var lockers []*Locker
		for range 4 {
			lockers = append(lockers, fl.process().locker())
		}
		const far = 5 * time.Millisecond
		fl.each(func(m *fakeredis.Master) { m.SetDelay(far) })
		r := race{hold: 10 * time.Millisecond}
		fl.forget()
		r.run(lockers, 8, 4*time.Second)
		gaps := r.gaps
		slices.Sort(gaps)
		n := len(r.who)
		longest, turns := r.turns(4)
		t.Logf("%d acquisitions, from free to the next holder: median %v, p99 %v, at most %v; %.2f attempts and %.1f commands each; turns %v, longest row %d",
			n, gaps[len(gaps)/2], gaps[len(gaps)*99/100], gaps[len(gaps)-1],
			float64(fl.count("SET"))/float64(3*n), float64(fl.count("SET", "EVALSHA"))/float64(n), turns, longest)
		require.LessOrEqual(t, gaps[len(gaps)/2], 3*far)
		require.LessOrEqual(t, gaps[len(gaps)*99/100], 20*far)
		require.NoError(t, r.h.overlap())
	})
}

// A thousand waiters hold the lock for no time each. All get it soon after its release by handoff,
// and only the last release is announced.
func TestAThousandWaitersAllGetTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the announcements of the first one are counted
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				k, err := b.Acquire(bg, "a", time.Minute)
				if err == nil {
					err = k.Release(bg)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		pass(3 * time.Second)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
		fl.forget()
		released := time.Now()
		require.NoError(t, k.Release(bg))
		all.Wait()
		t.Log("all through after", time.Since(released), "with", fl.count("SET", "EVALSHA"), "commands")
		require.Less(t, time.Since(released), time.Second)
		require.LessOrEqual(t, fl.count("SET", "EVALSHA"), 1000*6+4*3)
		fl.answered()
		require.Equal(t, 2, announced(fl.masters[0]), "the first release, and the last")
	})
}
