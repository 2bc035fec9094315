//go:build unix

package integration

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/redlock"
)

// BenchmarkAfterASuspend measures a machine that is suspended until many locks have expired, over
// three servers on this machine. An op is one suspend. Further metrics:
//
//	done-ms     from the waking until the last Done is closed; the target is 1,000
//	undone-ms   until all of them are undone on all servers
func BenchmarkAfterASuspend(b *testing.B) {
	const takers, ttl = 64, 2 * time.Minute
	servers := nearMasters(b, 3)
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("locks=%d", n), func(b *testing.B) {
			var ended, undone time.Duration
			for b.Loop() {
				b.StopTimer()
				asleep := clocktest.NewSkewed(clock.System())
				l, _ := openServers(b, servers, redlock.WithClock(asleep))
				done := make([]<-chan struct{}, n)
				var all sync.WaitGroup
				for t := range takers {
					all.Go(func() {
						for i := t; i < n; i += takers {
							k, err := l.Acquire(context.Background(), "held/"+strconv.Itoa(i), ttl)
							if err != nil {
								b.Error(err)
								return
							}
							done[i] = k.Context().Done()
						}
					})
				}
				all.Wait()
				if b.Failed() {
					b.FailNow()
				}
				time.Sleep(2 * time.Second) // no timer is due any more but the one that is always set
				b.StartTimer()
				asleep.Suspend(time.Hour)
				woken := time.Now()
				for _, d := range done {
					<-d
				}
				ended += time.Since(woken)
				require.NoError(b, l.Close(context.Background()))
				undone += time.Since(woken)
			}
			b.ReportMetric(float64(ended.Milliseconds())/float64(b.N), "done-ms")
			b.ReportMetric(float64(undone.Milliseconds())/float64(b.N), "undone-ms")
		})
	}
}
