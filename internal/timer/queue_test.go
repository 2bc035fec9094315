package timer_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// bell records when its timer fires.
type bell struct {
	timer.Timer
	clock clock.Clock

	mu   sync.Mutex
	rung []clock.Instant
}

func (b *bell) Fire(a *timer.Timer) {
	if a != &b.Timer {
		panic("rung by another's timer")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, b.clock.Now())
}

func (b *bell) times() []clock.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rung)
}

// ringer is a Handler that is a function.
type ringer func()

func (f ringer) Fire(*timer.Timer) { f() }

// at is an instant of a clock that showed 0 when the test began.
func at(d time.Duration) clock.Instant { return clock.Instant(d) }

// elapse lets d of the bubble's time pass, and runs what is due.
func elapse(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// bubble runs test with a queue by a clock of virtual time that can be skewed.
func bubble(t *testing.T, test func(t *testing.T, q *timer.Queue, c *clocktest.Skewed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := clocktest.NewSkewed(clock.Runtime())
		q := timer.New(c)
		test(t, q, c)
	})
}

func TestATimerFiresAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		b := &bell{clock: c}
		q.Set(&b.Timer, at(time.Hour), b)
		require.Equal(t, 1, q.Len())
		elapse(time.Hour - 1)
		require.Empty(t, b.times())
		elapse(1)
		require.Equal(t, []clock.Instant{at(time.Hour)}, b.times())
		require.Zero(t, q.Len())
		require.False(t, q.Clear(&b.Timer), "it has rung")
		elapse(time.Hour)
		require.Len(t, b.times(), 1)
	})
}

func TestADeadlineThatHasPassedFiresAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		b := &bell{clock: c}
		q.Set(&b.Timer, at(-time.Hour), b)
		synctest.Wait()
		require.Equal(t, []clock.Instant{0}, b.times())
	})
}

func TestTimersFireInTheOrderOfTheirDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		r := rand.New(rand.NewPCG(1, 1))
		bells := make([]*bell, 1000)
		for i, place := range r.Perm(len(bells)) {
			bells[place] = &bell{clock: c}
			q.Set(&bells[place].Timer, at(time.Duration(i)*time.Millisecond), bells[place])
		}
		var want []clock.Instant
		var got []clock.Instant
		elapse(time.Second)
		for _, b := range bells {
			got = append(got, b.times()...)
		}
		slices.Sort(got)
		for i := range bells {
			want = append(want, at(time.Duration(i)*time.Millisecond))
		}
		require.Equal(t, want, got)
	})
}

func TestSettingAgainMovesATimer(t *testing.T) {
	for name, to := range map[string]time.Duration{"earlier": time.Second, "later": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
				b, other := &bell{clock: c}, &bell{clock: c}
				q.Set(&other.Timer, at(time.Minute), other)
				q.Set(&b.Timer, at(time.Minute), b)
				q.Set(&b.Timer, at(to), b)
				require.Equal(t, 2, q.Len())
				elapse(3 * time.Minute)
				require.Equal(t, []clock.Instant{at(to)}, b.times())
				require.Equal(t, []clock.Instant{at(time.Minute)}, other.times())
			})
		})
	}
}

func TestAnEarlierDeadlineThanTheTimersIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		late, early := &bell{clock: c}, &bell{clock: c}
		q.Set(&late.Timer, at(900*time.Millisecond), late)
		q.Set(&early.Timer, at(300*time.Millisecond), early)
		elapse(time.Second)
		require.Equal(t, []clock.Instant{at(300 * time.Millisecond)}, early.times())
		require.Equal(t, []clock.Instant{at(900 * time.Millisecond)}, late.times())
	})
}

func TestAClearedTimerNeverFires(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		b := &bell{clock: c}
		require.False(t, q.Clear(&b.Timer), "the zero value is not set")
		q.Set(&b.Timer, at(time.Second), b)
		require.True(t, q.Clear(&b.Timer))
		require.False(t, q.Clear(&b.Timer))
		elapse(time.Hour)
		require.Empty(t, b.times())

		q.Set(&b.Timer, at(2*time.Hour), b)
		elapse(2 * time.Hour)
		require.Len(t, b.times(), 1, "and can be set again")
	})
}

func TestFireMaySetAndClearTimers(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		victim := &bell{clock: c}
		var a timer.Timer
		var rung []clock.Instant
		var r ringer
		r = func() {
			rung = append(rung, c.Now())
			q.Clear(&victim.Timer)
			if len(rung) < 4 {
				q.Set(&a, c.Now().Add(time.Minute), r)
			}
		}
		q.Set(&a, at(time.Minute), r)
		q.Set(&victim.Timer, at(time.Minute+1), victim)
		elapse(time.Hour)
		require.Equal(t, []clock.Instant{at(time.Minute), at(2 * time.Minute), at(3 * time.Minute), at(4 * time.Minute)}, rung)
		require.Empty(t, victim.times())
	})
}

func TestOnlyOneTimerFiresAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		release := make(chan struct{})
		var slow, due timer.Timer
		second := &bell{clock: c}
		q.Set(&slow, at(time.Second), ringer(func() { <-release }))
		q.Set(&due, at(time.Minute), ringer(func() {}))
		elapse(time.Second)
		q.Set(&second.Timer, at(2*time.Second), second)
		elapse(time.Minute)
		require.Empty(t, second.times(), "a fire is under way")
		close(release)
		synctest.Wait()
		require.Equal(t, []clock.Instant{at(61 * time.Second)}, second.times())
		require.Zero(t, q.Len())
	})
}
