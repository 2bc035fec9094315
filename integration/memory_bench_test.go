//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// BenchmarkHeldLocks measures what many locks with automatic extension cost, over three servers on
// this machine. An op is one second of holding all of them. Further metrics:
//
//	heap-MB, rss-MB   what the heap holds after a collection, and what the process takes of the machine's memory
//	bytes/lock        what the heap holds for each lock
//	goroutines        how many there are, those of the test included
//	extensions/s      how many locks are extended in a second
//	cmds/write        how many commands share a system call
//	lost              locks that are not valid any more; 0 is not shown
//
// docs/dev/memory.md has the figures.
func BenchmarkHeldLocks(b *testing.B) {
	servers := nearMasters(b, 3)
	for _, n := range []int{1_000, 20_000, 100_000} {
		b.Run(fmt.Sprintf("locks=%d", n), func(b *testing.B) {
			l, pools := openServers(b, servers)
			before := heap()
			locks := holdMany(b, l, n, redlock.WithAutoExtend())
			commands, writes := traffic(pools)
			for b.Loop() { // once, however often: the process' memory is that of one measurement
				time.Sleep(time.Second)
			}
			commands2, writes2 := traffic(pools)
			after := heap()
			b.ReportMetric(float64(after)/1e6, "heap-MB")
			b.ReportMetric(rss(b)/1e6, "rss-MB")
			b.ReportMetric(float64(after-before)/float64(n), "bytes/lock")
			b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
			b.ReportMetric(float64(commands2-commands)/3/b.Elapsed().Seconds(), "extensions/s")
			b.ReportMetric(float64(commands2-commands)/float64(max(1, writes2-writes)), "cmds/write")
			if lost := releaseMany(locks); lost > 0 {
				b.ReportMetric(float64(lost), "lost")
			}
		})
	}
}

// BenchmarkBesideHeldLocks measures an acquisition and its release while other locks are held, and
// over more nodes. The cost does not depend on the number of held locks.
func BenchmarkBesideHeldLocks(b *testing.B) {
	servers := nearMasters(b, 9)
	for _, c := range []struct{ nodes, held int }{{3, 1}, {3, 1_000}, {3, 100_000}, {5, 1}, {7, 1}, {9, 1}} {
		b.Run(fmt.Sprintf("nodes=%d/held=%d", c.nodes, c.held), func(b *testing.B) {
			l, _ := openServers(b, servers[:c.nodes])
			locks := holdMany(b, l, c.held)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				require.True(b, acquireAndRelease(l, "beside"))
			}
			b.StopTimer()
			releaseMany(locks)
		})
	}
}

// BenchmarkWaiters measures what 10,000 goroutines cost that wait for one name. An op is one second
// of waiting. The stacks are those of the waiting goroutines, which belong to the caller.
func BenchmarkWaiters(b *testing.B) {
	const n = 10_000
	l, pools := openServers(b, nearMasters(b, 3))
	k, err := l.Acquire(context.Background(), "wanted", time.Minute)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	before, stacked := heap(), stacks()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := l.Acquire(ctx, "wanted", time.Minute); !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
		})
	}
	commands, _ := traffic(pools)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	commands2, _ := traffic(pools)
	b.ReportMetric(float64(heap()-before)/n, "bytes/waiter")
	b.ReportMetric(float64(stacks()-stacked)/n, "stack/waiter")
	b.ReportMetric(float64(commands2-commands)/b.Elapsed().Seconds(), "cmds/s")
	cancel()
	all.Wait()
	require.NoError(b, k.Release(context.Background()))
}

// BenchmarkIdleLockers measures what 100 idle Lockers cost that are connected to three servers.
func BenchmarkIdleLockers(b *testing.B) {
	const n = 100
	servers := nearMasters(b, 3)
	before, stacked, goroutines := heap(), stacks(), runtime.NumGoroutine()
	lockers := make([]*redlock.Locker, n)
	for i := range lockers {
		lockers[i], _ = openServers(b, servers)
		require.True(b, acquireAndRelease(lockers[i], "once"))
	}
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(float64(heap()-before)/n, "bytes/locker")
	b.ReportMetric(float64(stacks()-stacked)/n, "stack/locker")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/locker")
	runtime.KeepAlive(lockers)
}

// holdMany acquires n locks for half a minute.
func holdMany(b *testing.B, l *redlock.Locker, n int, opts ...redlock.LockOption) []*redlock.Lock {
	b.Helper()
	locks := make([]*redlock.Lock, n)
	const takers = 64
	var all sync.WaitGroup
	for t := range min(takers, n) {
		all.Go(func() {
			for i := t; i < n; i += takers {
				var err error
				if locks[i], err = l.TryAcquire(context.Background(), "held/"+strconv.Itoa(i), 30*time.Second, opts...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return locks
}

func releaseMany(locks []*redlock.Lock) (lost int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	const releasers = 64
	for r := range releasers {
		all.Go(func() {
			for i := r; i < len(locks); i += releasers {
				if err := locks[i].Release(context.Background()); err != nil {
					mu.Lock()
					lost++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return lost
}

// heap returns the size of the heap after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// stacks returns the size of the goroutines' stacks, after a collection has shrunk them.
func stacks() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}

// rss returns the resident memory of the process, in bytes.
func rss(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not available on this system
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			require.NoError(b, err)
			return kb * 1024
		}
	}
	return 0
}
