//go:build unix && !aix && !solaris

package request

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// signalling is a clock that sends a signal at one of its readings.
type signalling struct {
	clock.Clock
	in   cli.Signals
	left atomic.Int64 // how many readings until then
	sent atomic.Bool
}

func (s *signalling) Now() clock.Instant {
	if s.left.Add(-1) == 0 {
		s.in <- syscall.SIGTERM
		s.sent.Store(true)
	}
	return s.Clock.Now()
}

// With one processor the goroutine that takes the signal may end the context only after the lock was acquired.
func TestASignalAtTheMomentOfSuccessIsNotLost(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	q := redlocktest.New(t, 3)
	s := &signalling{Clock: q.Clock(), in: make(cli.Signals, 16)}
	locker := q.Locker(redlock.WithClock(s), redlock.WithNodeTimeout(20*time.Second)) // a busy machine answers late
	var names []string
	for sent := true; sent; {
		name := fmt.Sprintf("job%d", len(names))
		names = append(names, name)
		s.sent.Store(false)
		s.left.Store(int64(len(names)))
		req := &Request{Name: name, TTL: time.Minute, SkipStatus: NoSkip}
		lock, err := req.Acquire(t.Context(), &cli.Invocation{Stderr: os.Stderr}, locker, s.in)
		if err != nil {
			require.Equal(t, cli.SignalError{Signal: syscall.SIGTERM}, err)
			continue
		}
		sent = s.sent.Load()
		_, pending := s.in.Pending()
		require.True(t, pending || !sent, "it remains for the caller")
		require.NoError(t, lock.Release(t.Context()))
	}
	require.NoError(t, locker.Close(t.Context()))
	for _, name := range names {
		_, held := q.Holder(name)
		require.False(t, held, name)
	}
}
