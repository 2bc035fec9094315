package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grants are locks that were acquired, with their times and fences.
type grants struct {
	mu       sync.Mutex
	list     []grant
	attempts int // that won, and
	second   int // … needed a confirmation
}

type grant struct {
	began, done time.Time
	fence       int64
}

// trace counts the confirmations.
func (g *grants) trace() Option {
	return WithTrace(&Trace{Attempt: func(e RoundEvent) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if e.Err == nil {
			g.attempts++
		}
		if e.Err == nil && e.Confirmed {
			g.second++
		}
	}})
}

func (g *grants) add(began time.Time, k *Lock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, grant{began, time.Now(), k.Fence()})
}

// disorder returns an error if two locks have the same fence, or if a lock that was asked for after
// another was acquired has a smaller fence.
func (g *grants) disorder() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, a := range g.list {
		for _, b := range g.list[:i] {
			if a.fence == b.fence || a.done.Before(b.began) && a.fence > b.fence || b.done.Before(a.began) && b.fence > a.fence {
				return fmt.Errorf("%v and %v", a, b)
			}
		}
	}
	return nil
}

func (g *grants) share() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return float64(g.second) / float64(max(g.attempts, 1))
}

func (g grant) String() string {
	return fmt.Sprintf("%d in [%s, %s]", g.fence, g.began.Format("05.000000"), g.done.Format("05.000000"))
}

func TestTheFenceOracleSeesDisorder(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	g := grants{list: []grant{{at(0), at(10), 5}, {at(5), at(15), 4}, {at(20), at(25), 6}}}
	require.NoError(t, g.disorder(), "the first two overlap: either may be larger")
	for _, bad := range []grant{{at(30), at(40), 6}, {at(30), at(40), 5}, {at(1), at(2), 4}, {at(1), at(2), 7}} {
		worse := grants{list: append(slices.Clone(g.list), bad)}
		require.Error(t, worse.disorder(), "%v", bad)
	}
}

// fenceSim simulates contention for one name by processes whose clocks differ a little, on masters
// that answer at different times.
type fenceSim struct {
	seed                           uint64
	masters, processes, goroutines int
	rounds                         int
	clocks                         time.Duration // the largest difference between the processes' clocks
	disturb                        func(ctx context.Context, fl *testbed, random *rand.Rand)
	grants                         grants
}

func (s *fenceSim) random(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, uint64(stream)))
}

func (s *fenceSim) run(t *testing.T) {
	t.Helper()
	inBubble(t, s.masters, func(fl *testbed) {
		var work, faults sync.WaitGroup
		for p := range s.processes {
			off := time.Duration(s.random(1000 + p).Int64N(int64(s.clocks) + 1))
			l := fl.process().locker(WithFencing(), wallAhead(off), s.grants.trace())
			for c := range s.goroutines {
				work.Go(func() { s.contend(l, s.random(2000+100*p+c)) })
			}
		}
		ctx, stop := context.WithCancel(bg)
		faults.Go(func() { s.disturb(ctx, fl, s.random(1)) })
		work.Wait()
		stop()
		faults.Wait()
		require.NoError(t, s.grants.disorder(), "seed %d", s.seed)
	})
}

// contend acquires, holds and releases. TryAcquire has an exact beginning; Acquire, which waits,
// makes contenders meet.
func (s *fenceSim) contend(l *Locker, random *rand.Rand) {
	const ttl = 400 * time.Millisecond
	for range s.rounds {
		began := time.Now()
		acquire := l.TryAcquire
		if random.IntN(2) == 0 {
			acquire = l.Acquire
		}
		ctx, cancel := context.WithTimeout(bg, 10*ttl)
		k, err := acquire(ctx, "a", ttl)
		cancel()
		if err == nil {
			s.grants.add(began, k)
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			_ = k.Release(bg) // it may be lost: keys are deleted by hand
		}
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
	}
}

// delays gives every command and every answer a delay of its own for each master, so the masters
// execute commands in different orders.
func delays(ctx context.Context, fl *testbed, random *rand.Rand) {
	var mu sync.Mutex
	some := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return 100*time.Microsecond + time.Duration(random.ExpFloat64()*float64(500*time.Microsecond))
	}
	for _, m := range fl.masters {
		m.Hook(func(int64, string, []string) (string, bool) {
			time.Sleep(some())
			return "", false
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		fl.masters[i%len(fl.masters)].SetDelay(some())
		time.Sleep(5 * time.Millisecond)
	}
}

// hands also deletes the lock's key on some master every now and then. So holders overlap, and lose
// nodes between a grant and its confirmation.
func hands(ctx context.Context, fl *testbed, random *rand.Rand) {
	for ctx.Err() == nil {
		m := fl.masters[random.IntN(len(fl.masters))]
		switch random.IntN(4) {
		case 0:
			down(m)
		case 1:
			up(m)
		case 2:
			m.Del("a")
		case 3:
			m.SetDelay(time.Duration(random.ExpFloat64() * float64(2*time.Millisecond)))
		}
		time.Sleep(time.Duration(random.Int64N(int64(4 * time.Millisecond))))
	}
	fl.each(up)
}

// The usual case takes one round trip: about one acquisition in twenty needs a confirmation under
// contention. Clients whose clocks differ by 0.1 s need more, and are as safe.
func TestFencesIncreaseUnderContentionAndAreSeldomConfirmed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		masters int
		clocks  time.Duration
	}{{3, 10 * time.Millisecond}, {5, 100 * time.Millisecond}} {
		n, clocks := row.masters, row.clocks
		s := &fenceSim{seed: uint64(n), masters: n, processes: 4, goroutines: 4, rounds: 24, clocks: clocks, disturb: delays}
		s.run(t)
		t.Logf("%d masters, clocks up to %v apart: %d acquired, %.1f %% confirmed", n, clocks, s.grants.attempts, 100*s.grants.share())
		require.Greater(t, len(s.grants.list), 150)
		if clocks < 100*time.Millisecond {
			require.LessOrEqual(t, s.grants.share(), 0.2)
		}
	}
}

// Neither clocks nor dead nodes nor early expiries bring the fences out of order, as long as no
// counter is lost. This holds even if exclusion itself is broken.
func TestFencesAreInOrderWhereExclusionIsNot(t *testing.T) {
	t.Parallel()
	const seeds = 2 // integration/sim has thousands
	total := 0
	for seed := range uint64(seeds) {
		s := &fenceSim{seed: seed, masters: 3, processes: 4, goroutines: 2, rounds: 8, clocks: time.Second, disturb: hands}
		s.run(t)
		total += len(s.grants.list)
	}
	t.Log(total, "acquired")
	require.Greater(t, total, 10*seeds)
}
