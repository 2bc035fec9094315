package background_test

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
)

func TestItemsRunOneAfterAnotherInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		running := false
		q := background.NewQueue(0, func(n int) {
			require.False(t, running)
			running = true
			time.Sleep(time.Second)
			ran, running = append(ran, n), false
		})
		for round := range 2 {
			for i := range 5 {
				require.True(t, q.Add(5*round+i))
			}
			q.Join(clock.Runtime(), time.Hour)
		}
		require.Len(t, ran, 10)
		require.True(t, slices.IsSorted(ran))
	})
}

func TestAFullQueueTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		q := background.NewQueue(2, func(int) { <-open })
		require.True(t, q.Add(1))
		synctest.Wait() // it runs
		require.True(t, q.Add(2))
		require.True(t, q.Add(3))
		require.False(t, q.Add(4))
		close(open)
		q.Join(clock.Runtime(), time.Hour)
		require.True(t, q.Add(5))
		q.Join(clock.Runtime(), time.Hour)
	})
}

// An item may end its goroutine, as a failing test does.
func TestAnItemThatEndsItsGoroutineStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		q := background.NewQueue(0, func(int) {
			ran++
			runtime.Goexit()
		})
		for i := range 3 {
			q.Add(i)
		}
		q.Join(clock.Runtime(), time.Hour)
		require.Equal(t, 3, ran)
	})
}

// Join waits for what runs, and delays nothing for longer than its limit.
func TestJoinIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		q := background.NewQueue(0, func(int) { <-open })
		q.Add(1)
		began := time.Now()
		q.Join(clock.Runtime(), 3*time.Second)
		require.Equal(t, 3*time.Second, time.Since(began))
		close(open)
		q.Join(clock.Runtime(), time.Hour)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
