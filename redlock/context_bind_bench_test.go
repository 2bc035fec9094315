package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// BenchmarkTheEndOfALockWithManyBoundContexts ends a lock to which contexts are bound: by Release, and
// by its TTL beside another lock. It reports how long Release takes, Remaining right after it, and how
// late Done of the other lock is closed.
func BenchmarkTheEndOfALockWithManyBoundContexts(b *testing.B) {
	for name, n := range map[string]int{"none": 0, "1,000": 1000, "10,000": 10_000, "100,000": 100_000} {
		b.Run(name, func(b *testing.B) {
			nodes := make([]command.Voter, 3)
			for i := range nodes {
				nodes[i] = newFake("n" + string(rune('1'+i)))
			}
			l, err := newOver(nodes)
			require.NoError(b, err)
			acquire := func(name string, ttl time.Duration) *Lock {
				k, err := l.Acquire(bg, name, ttl)
				require.NoError(b, err)
				return k
			}
			bind := func(k *Lock) {
				for range n {
					_, release := k.Bind(bg)
					b.Cleanup(release)
				}
			}
			var release, remaining, late time.Duration
			for b.Loop() {
				k := acquire("a", time.Minute)
				bind(k)
				began := time.Now()
				require.NoError(b, k.Release(bg))
				release += time.Since(began)
				began = time.Now()
				_ = k.Remaining()
				remaining += time.Since(began)

				k = acquire("b", 3*time.Second)
				bind(k)
				other := acquire("c", 3*time.Second)
				<-other.Context().Done()
				late += -other.Remaining()
			}
			b.ReportMetric(release.Seconds()*1e3/float64(b.N), "ms/release")
			b.ReportMetric(remaining.Seconds()*1e3/float64(b.N), "ms/remaining")
			b.ReportMetric(late.Seconds()*1e3/float64(b.N), "ms/late")
			b.ReportMetric(0, "ns/op")
		})
	}
}
