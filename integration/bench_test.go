//go:build unix

package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// BenchmarkAcquireAndRelease measures one lock from acquisition to release, on uncontended names,
// over three servers on this machine. An op is both: two commands on each server, two round trips.
// Further metrics:
//
//	p50-µs, p99-µs   how long an op takes
//	cmds/write       how many commands share a system call, over all three servers
//	failed/op        ops that failed; 0 is not shown
//
// Targets: at most 8 allocations an op; more than one command a write from some number of
// goroutines on; and less than 20 % more in the median with a frozen server.
func BenchmarkAcquireAndRelease(b *testing.B) {
	servers := nearMasters(b, 3)
	for _, c := range []struct {
		name   string
		frozen []master
		opts   []redlock.Option
	}{
		{"all well", nil, nil},
		{"one frozen", servers[2:], nil},
		{"fencing", nil, []redlock.Option{redlock.WithFencing()}},
		{"fencing and guard", nil, []redlock.Option{redlock.WithFencing(), redlock.WithRestartGuard(10 * time.Second)}}, // last, because its markers remain
	} {
		for _, goroutines := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				l, pools := openServers(b, servers, c.opts...)
				admitted(b, l, c.opts)
				for _, s := range c.frozen { // its connections stay open
					s.Pause(b)
					defer s.Unpause(b)
				}
				benchmarkUncontended(b, l, pools, goroutines)
			})
		}
	}
}

// BenchmarkTwoRoundTrips measures what the network and a server need for two successive commands.
// It is the reference for one goroutine.
func BenchmarkTwoRoundTrips(b *testing.B) {
	c, err := redis.DialURL(nearMasters(b, 1)[0].URL())
	require.NoError(b, err)
	defer c.Close()
	for b.Loop() {
		do(b, c, "SET", "x", "token", "NX", "PX", 10_000)
		do(b, c, "DEL", "x")
	}
}

// openServers opens a Locker with a connection to every server.
func openServers(b *testing.B, servers []master, opts ...redlock.Option) (*redlock.Locker, []*pool.Node) {
	b.Helper()
	pools := make([]*pool.Node, len(servers))
	for i, s := range servers {
		cfg, err := pool.ParseURL(s.URL())
		require.NoError(b, err)
		n, err := pool.Open(cfg)
		require.NoError(b, err)
		pools[i] = n
	}
	l, err := redlock.New(pools, opts...)
	require.NoError(b, err)
	b.Cleanup(func() { closeLocker(b, l) }) // after the frozen servers have resumed
	for _, n := range pools {
		await(b, n.Name()+" is connected", func() bool { return n.Stats().Connected == 1 })
	}
	return l, pools
}

// admitted admits the nodes of a Locker, which is the first client with the guard.
func admitted(b *testing.B, l *redlock.Locker, opts []redlock.Option) {
	b.Helper()
	if len(opts) < 2 || l.Healthy(b.Context()) == nil {
		return
	}
	_, err := doctor.Admit(b.Context(), l)
	require.NoError(b, err)
}

func benchmarkUncontended(b *testing.B, l *redlock.Locker, pools []*pool.Node, goroutines int) {
	b.Helper()
	took := make([][]time.Duration, goroutines)
	names := make([]string, goroutines)
	for i := range took {
		took[i] = make([]time.Duration, 0, b.N/goroutines+1)
		names[i] = fmt.Sprintf("bench/%d", i)
	}
	var failed atomic.Int64
	var start, all sync.WaitGroup
	start.Add(1)
	for i := range took {
		ops := b.N / goroutines
		if i < b.N%goroutines {
			ops++
		}
		all.Go(func() {
			start.Wait()
			for range ops {
				began := time.Now()
				if !acquireAndRelease(l, names[i]) {
					failed.Add(1)
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	commands, writes := traffic(pools)
	b.ReportAllocs()
	b.ResetTimer()
	start.Done()
	all.Wait()
	b.StopTimer()

	commands2, writes2 := traffic(pools)
	b.ReportMetric(float64(commands2-commands)/float64(max(1, writes2-writes)), "cmds/write")
	every := slices.Concat(took...)
	slices.Sort(every)
	b.ReportMetric(microseconds(every[len(every)/2]), "p50-µs")
	b.ReportMetric(microseconds(every[len(every)*99/100]), "p99-µs")
	if n := failed.Load(); n > 0 {
		b.ReportMetric(float64(n)/float64(b.N), "failed/op")
	}
}

func acquireAndRelease(l *redlock.Locker, name string) bool {
	ctx := context.Background()
	k, err := l.TryAcquire(ctx, name, 10*time.Second)
	return err == nil && k.Release(ctx) == nil
}

func traffic(pools []*pool.Node) (commands, writes int64) {
	for _, n := range pools {
		s := n.Stats()
		commands, writes = commands+s.Written, writes+s.Writes
	}
	return commands, writes
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
