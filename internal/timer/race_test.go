package timer_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// chime counts its rings, and fails if two of them overlap.
type chime struct {
	timer.Timer
	ringing *atomic.Int32
	rung    atomic.Int64
}

func (c *chime) Fire(*timer.Timer) {
	if c.ringing.Add(1) != 1 {
		panic("two fire at once")
	}
	c.rung.Add(1)
	c.ringing.Add(-1)
}

func TestEverySettingEitherFiresOrIsClearedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		q := timer.New(c)
		var ringing atomic.Int32
		var all sync.WaitGroup
		for worker := range uint64(8) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(worker, 1))
				a := &chime{ringing: &ringing}
				var set, cleared int64
				for range 300 {
					q.Set(&a.Timer, c.Now().Add(time.Duration(r.IntN(20))), a)
					set++
					if r.IntN(2) == 0 {
						time.Sleep(time.Duration(r.IntN(20))) // virtual
					}
					if q.Clear(&a.Timer) {
						cleared++
					}
				}
				time.Sleep(time.Second)
				if got := a.rung.Load() + cleared; got != set {
					t.Errorf("%d settings ended %d times", set, got)
				}
			})
		}
		all.Wait()
		require.Zero(t, q.Len())
	})
}

func TestSettingAndClearingAllocateNothing(t *testing.T) {
	c := clock.Runtime()
	q := timer.New(c)
	b := &bell{clock: c}
	at := c.Now().Add(time.Hour)
	q.Set(&b.Timer, at, b) // the timer and the heap's first room
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Set(&b.Timer, at, b)
		q.Clear(&b.Timer)
	}))
}

// The queue has many timers, and one after the other is set and cleared.
func BenchmarkSetAndClear(b *testing.B) {
	for _, held := range []struct {
		name string
		n    int
	}{{"alone", 0}, {"among 1000", 1000}, {"among 100000", 100_000}} {
		b.Run(held.name, func(b *testing.B) {
			c := clock.System()
			q := timer.New(c)
			end := c.Now().Add(time.Hour)
			others := make([]bell, held.n)
			for i := range others {
				q.Set(&others[i].Timer, end.Add(time.Duration(i)), &others[i])
			}
			one := new(bell)
			i := time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				i++
				q.Set(&one.Timer, end.Add(i), one)
				q.Clear(&one.Timer)
			}
		})
	}
}

// Many goroutines set and clear timers at once, as holders of many locks do.
func BenchmarkSetAndClearInParallel(b *testing.B) {
	c := clock.System()
	q := timer.New(c)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		one := new(bell)
		for p.Next() {
			q.Set(&one.Timer, c.Now().Add(time.Hour), one)
			q.Clear(&one.Timer)
		}
	})
}
