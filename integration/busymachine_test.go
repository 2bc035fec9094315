package integration

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/redlock"
)

// busyFor returns how long the test lasts, and the TTL of its locks. The default allows for
// other tests on the machine: extensions begin after 6 s, and have 12 s to succeed.
func busyFor(t *testing.T) (length, ttl time.Duration, whole bool) {
	t.Helper()
	text := os.Getenv("REDLOCK_TEST_BUSY")
	if text == "" {
		return 10 * time.Second, 18 * time.Second, false
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err)
	return length, 3 * time.Second, true
}

// TestLocksAreKeptOnABusyMachine holds many locks with automatic extension in a process whose
// processors are used by other goroutines, while contenders acquire and release. It prints how many
// locks were lost, and how late Done was closed after the end of a validity. REDLOCK_TEST_BUSY=30s
// sets the duration, has TTLs of 3 s, and also bounds the lateness of Done: the machine must then be
// idle otherwise.
func TestLocksAreKeptOnABusyMachine(t *testing.T) {
	const (
		locks      = 200
		contenders = 8
		names      = 4
		short      = 500 * time.Millisecond
		spinners   = 4 // for each processor
		latest     = 100 * time.Millisecond
	)
	length, ttl, whole := busyFor(t)
	late.LeaveOut(t, "a late node does not answer within the default node timeout, with which users keep their locks")
	l := open(t, masters(t, 3), redlock.WithNodeTimeout(500*time.Millisecond)) // the default, with which users keep their locks
	answered(t, l)
	held := make([]*redlock.Lock, locks)
	for i := range held {
		held[i] = acquired(t, l, "held/"+strconv.Itoa(i), ttl, redlock.WithAutoExtend())
	}

	ctx, stop := context.WithTimeout(t.Context(), length)
	var all sync.WaitGroup
	var over atomic.Bool
	quiet := func() { stop(); over.Store(true); all.Wait() }
	defer quiet() // also if the test fails: others need the processors
	for range spinners * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			if !whole { // until the extensions are near, the processors are left to other tests
				time.Sleep(length / 2)
			}
			for n := 0; !over.Load(); { // only uses a processor
				n++
			}
		})
	}
	var turns atomic.Int64
	for i := range contenders {
		all.Go(func() {
			for ctx.Err() == nil {
				k, err := l.Acquire(ctx, "contended/"+strconv.Itoa(i%names), ttl)
				if err != nil {
					continue
				}
				turns.Add(1)
				_ = k.Release(ctx)
				time.Sleep(5 * time.Millisecond) // the spinners use the processors
			}
		})
	}
	var mu sync.Mutex
	var late time.Duration // the maximum
	ends := 0
	for i := range contenders {
		all.Go(func() {
			for ctx.Err() == nil {
				k, err := l.Acquire(ctx, "ends/"+strconv.Itoa(i), ttl, redlock.WithMaxHold(short))
				if err != nil {
					continue
				}
				done, end := k.Context().Done(), time.Now().Add(k.Remaining())
				<-done
				mu.Lock()
				late, ends = max(late, time.Since(end)), ends+1
				mu.Unlock()
			}
		})
	}
	<-ctx.Done()
	quiet()
	if !whole { // other tests may delay an extension; a lock without one is lost at its TTL
		await(t, "most locks are extended", func() bool {
			extended := 0
			for _, k := range held {
				if k.Remaining() > ttl-length {
					extended++
				}
			}
			return extended > locks/2
		})
	}

	lost := 0
	for _, k := range held {
		if errors.Is(context.Cause(k.Context()), redlock.ErrLost) {
			lost++
		}
		_ = k.Release(t.Context())
	}
	t.Logf("%v with %d busy goroutines on %d processors: %d of %d locks lost, %d turns of contenders, Done up to %v after the end in %d cases",
		length, spinners*runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0), lost, locks, turns.Load(), late, ends)
	assert.Zero(t, lost, "locks lost")
	assert.Positive(t, turns.Load())
	require.Positive(t, ends)
	if whole {
		assert.LessOrEqual(t, late, latest)
	}
}
