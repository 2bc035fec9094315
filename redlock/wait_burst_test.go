//go:build !race

package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// burst has n processes wait for one hold, and then hold the name once each. It returns when all were served, for how long the name was free
// in all, and each time.
func (fl *testbed) burst(n int, first, hold, every time.Duration) (served, free time.Duration, gaps []time.Duration) {
	k := take(fl.t, fl.process().locker(), "a", time.Hour)
	var all []*Locker
	for range n {
		all = append(all, fl.process().locker())
	}
	fl.each(func(m *fakeredis.Master) { m.SetDelay(every) })
	var mu sync.Mutex
	var ended sync.WaitGroup
	var freed time.Time
	for _, l := range all {
		ended.Go(func() {
			k, err := l.Acquire(bg, "a", time.Minute)
			require.NoError(fl.t, err)
			mu.Lock()
			gaps = append(gaps, time.Since(freed))
			mu.Unlock()
			time.Sleep(hold)
			mu.Lock()
			freed = time.Now()
			mu.Unlock()
			require.NoError(fl.t, k.Release(bg))
		})
	}
	pass(first)
	fl.answered()
	fl.forget()
	began := time.Now()
	freed = began
	require.NoError(fl.t, k.Release(bg))
	ended.Wait()
	served = time.Since(began)
	for _, g := range gaps {
		free += g
	}
	return served, free, gaps
}

// Many wait for one long hold, and then hold the name once each. Those that have had their turn must not look like
// waiters, and not all others may rest meanwhile.
func TestABurstIsServedWithoutAStandstill(t *testing.T) {
	late.LeaveOut(t, "it measures the time from one holder to the next")
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		served, free, gaps := fl.burst(50, 30*time.Second, 5*time.Millisecond, 200*time.Microsecond)
		fl.t.Logf("all served in %v, free for %v in all and at most %v", served, free, slices.Max(gaps))
		require.Less(fl.t, slices.Max(gaps), 100*time.Millisecond)
		require.Less(fl.t, free, 300*time.Millisecond)
	})
}

// Each of 20 processes wants the name six times a second, and holds it for 5 ms. Few wait at a time, and not for long.
func TestWhoHasHadItsTurnIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		const n, hold = 20, 5 * time.Millisecond
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		var mu sync.Mutex
		var waits []time.Duration
		var all sync.WaitGroup
		for range n {
			l := fl.process().locker()
			all.Go(func() {
				for {
					time.Sleep(time.Duration(rand.ExpFloat64() * n * float64(hold) / 0.6))
					began := time.Now()
					k, err := l.Acquire(ctx, "a", time.Minute)
					if err != nil {
						return
					}
					mu.Lock()
					waits = append(waits, time.Since(began))
					mu.Unlock()
					time.Sleep(hold)
					require.NoError(fl.t, k.Release(bg))
				}
			})
		}
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		all.Wait()
		slices.Sort(waits)
		p99 := waits[len(waits)*99/100]
		fl.t.Logf("%d holds, waits of %v, 99 %% of up to %v", len(waits), waits[len(waits)/2], p99)
		require.Less(fl.t, p99, 150*time.Millisecond)
	})
}

// Two processes take turns. Ten others want the name once a second, and give up soon.
func TestWhoHasGivenUpIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		var others sync.WaitGroup
		for range 10 {
			l := fl.process().locker()
			others.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(rand.N(2 * time.Second))
					if k, err := l.Acquire(ctx, "a", time.Minute, WithWait(3*time.Millisecond)); err == nil {
						_ = k.Release(bg)
					}
				}
			})
		}
		r := race{hold: 5 * time.Millisecond}
		r.run([]*Locker{fl.process().locker(), fl.process().locker()}, 1, 10*time.Second)
		others.Wait()
		_, turns := r.turns(2)
		fl.t.Log(turns)
		require.Greater(fl.t, turns[0]+turns[1], 1400)
	})
}

// Calls that give up and come again were behind all others each time: 1 % waited for more than 9 s until one succeeded.
func TestWhoGivesUpAndComesAgainKeepsItsPlace(t *testing.T) {
	late.LeaveOut(t, "it measures waits")
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		const n, hold = 20, 100 * time.Millisecond
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		ctx, cancel := context.WithTimeout(bg, 1000*hold)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		var waits []time.Duration
		for range n {
			l := fl.process().locker()
			all.Go(func() {
				for began := time.Now(); ctx.Err() == nil; {
					k, err := l.Acquire(ctx, "a", time.Minute, WithWait(time.Second))
					if err != nil {
						continue
					}
					mu.Lock()
					waits = append(waits, time.Since(began))
					mu.Unlock()
					time.Sleep(hold)
					_ = k.Release(bg)
					began = time.Now()
				}
			})
		}
		all.Wait()
		slices.Sort(waits)
		fl.t.Logf("%d holds, waits of %v, 99 %% of up to %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100])
		require.Greater(fl.t, len(waits), 950)
		require.Less(fl.t, waits[len(waits)*99/100], 5*time.Second)
	})
}

// The keys of a holder would expire soon after its release. All that have seen them would try at that instant, though another process has
// the name by then.
func TestTheExpiryOfReleasedKeysIsNoReasonToTry(t *testing.T) {
	late.LeaveOut(t, "it counts attempts")
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		const n, hold, ttl = 60, 300 * time.Millisecond, 500 * time.Millisecond
		ctx, cancel := context.WithTimeout(bg, 60*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var holds atomic.Int64
		for range n {
			l := fl.process().locker()
			all.Go(func() {
				for {
					k, err := l.Acquire(ctx, "a", ttl)
					if err != nil {
						return
					}
					time.Sleep(hold)
					holds.Add(1)
					_ = k.Release(bg)
				}
			})
		}
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		time.Sleep(30 * time.Second)
		before := holds.Load()
		fl.forget()
		all.Wait()
		each := float64(fl.masters[0].Commands()["SET"]) / float64(holds.Load()-before)
		fl.t.Logf("%.1f attempts a hold", each)
		require.Less(fl.t, each, 42.0)
	})
}

// A release says how long its holder had waited, and so a process knows its own. Another one may have waited exactly as long.
func TestAReleaseIsHeardAlsoIfItsHolderHadWaitedAsLong(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Microsecond) })
		a, b := fl.process().locker(), fl.process().locker()
		for range 3 {
			first := take(fl.t, fl.process().locker(), "a", time.Minute)
			isA := wants(bg, a, "a")
			pass(100 * time.Millisecond)
			require.NoError(fl.t, first.Release(bg))
			ofA := gets(fl.t, isA).k
			pass(50 * time.Millisecond)
			isB := wants(bg, b, "a")
			pass(100 * time.Millisecond)
			require.NoError(fl.t, ofA.Release(bg))
			ofB := gets(fl.t, isB).k
			isA = wants(bg, a, "a")
			pass(60 * time.Millisecond)
			began := time.Now()
			require.NoError(fl.t, ofB.Release(bg))
			require.NoError(fl.t, gets(fl.t, isA).k.Release(bg))
			require.Less(fl.t, time.Since(began), 10*time.Millisecond)
			pass(2 * time.Second)
		}
	})
}

// Announcements without a release make a waiter back off. It notices a release among them within
// the time between two polls. So it does if they say that the keys end soon, or in a day.
func TestAnnouncementsInVainAreFollowedEverMoreSeldom(t *testing.T) {
	for payload, most := range map[string]int{"": 25, "1000 2 1": 40, "1000 2 86400000": 40} {
		for _, names := range [][]string{{"a"}, {"a", "b"}} {
			inBubble(t, 3, func(fl *testbed) {
				a, b := fl.locker(), fl.process().locker()
				k := take(fl.t, a, "a", time.Hour)
				done := wants(bg, b, names...)
				fl.settled()
				stop := fl.flood("a", payload)
				defer stop()
				pass(10 * time.Second)
				require.LessOrEqual(fl.t, fl.masters[0].Commands()["SET"]+fl.masters[0].Commands()["EVALSHA"], most+len(names),
					"%q for %q: less than three a second, and some before", payload, names)
				released := time.Now()
				require.NoError(fl.t, k.Release(bg))
				w := gets(fl.t, done)
				require.LessOrEqual(fl.t, w.at.Sub(released), waiting.MaxPollPause+lateness(), "%q for %q", payload, names)
				require.NoError(fl.t, w.k.Release(bg))
			})
		}
	}
}
