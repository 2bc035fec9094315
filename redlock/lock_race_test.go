package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H25: for the race detector. Each goroutine calls random methods until the
// lock ends, by one of many releases or by Detach.
func TestAHandleIsSafeForConcurrentUse(t *testing.T) {
	for n := range 4 {
		inBubbles(t, 3, func(fl *testbed) {
			l := fl.locker(WithTrace(&Trace{Vote: func(VoteEvent) {}, Extended: func(RoundEvent) {}}))
			for i, m := range fl.masters {
				m.SetDelay(time.Duration(i+1) * time.Millisecond)
			}
			k := take(t, l, "a", 400*time.Millisecond, WithAutoExtend(), WithProgress(time.Second), WithMaxHold(3*time.Second))
			all := []func(){
				func() { _ = k.Extend(bg, 400*time.Millisecond) },
				func() { _ = k.Check(bg) },
				func() { k.Progress() },
				func() { _ = k.Remaining() },
				func() { _ = k.Context().Err() },
				func() { _ = context.Cause(k.Context()) },
				func() { _ = k.Names() },
				func() {
					if s, err := l.TryAcquire(k.Context(), "a", 100*time.Millisecond, WithShared()); err == nil {
						defer func() { _ = s.Release(bg) }()
						_ = s.Context().Err()
						_ = s.Remaining()
					}
				},
			}
			var work sync.WaitGroup
			for range 8 {
				work.Go(func() {
					for k.Remaining() > 0 {
						all[rand.N(len(all))]()
						time.Sleep(rand.N(3 * time.Millisecond))
					}
				})
			}
			for range 3 {
				work.Go(func() {
					time.Sleep(60 * time.Millisecond)
					if n == 3 {
						_, _ = k.Detach()
					}
					_ = k.Release(bg)
				})
			}
			if n == 2 {
				work.Go(func() { _ = l.Close(bg) })
			}
			work.Wait()
			pass(time.Second)
			require.LessOrEqual(t, k.Remaining(), time.Duration(0))
			require.Error(t, k.Context().Err())
			require.Zero(t, booked(l))
			require.Empty(t, k.extending.rounds)
			require.Empty(t, k.family.shares)
			for _, m := range fl.masters {
				require.Empty(t, m.Keys())
			}
		})
	}
}

// docs/dev/hazards.md H67, H15: many short holds, in sequence and in parallel, leave nothing.
func TestNoKeyAndNoLeaseIsLeftOfManyHolds(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[1].SetDelay(3 * time.Millisecond)
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for range 8 {
					k, err := l.Acquire(bg, "a", 100*time.Millisecond, WithAutoExtend())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(rand.N(70 * time.Millisecond))
					if rand.N(2) == 0 {
						_ = k.Extend(bg, 200*time.Millisecond)
					}
					if err := k.Release(bg); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		fl.answered()
		pass(10 * time.Millisecond)
		require.Zero(t, booked(l))
		require.Zero(t, l.timers.Len())
		require.Zero(t, fl.keys("a"))
		require.GreaterOrEqual(t, fl.orders(command.Release), 2*64, "what was refused is spared")
	})
}
