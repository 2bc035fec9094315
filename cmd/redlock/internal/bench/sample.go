package bench

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

// sample holds the measurements of one client. Only that client writes it.
type sample struct {
	name                   string
	acquire, release, both histogram
	errors                 map[string]int
}

// failurePause is the pause after a failed acquisition, so that a client does not flood nodes that
// are down.
const failurePause = 10 * time.Millisecond

// takeAll acquires and releases until ctx ends, or until all clients together have begun as many
// acquisitions as --count allows.
func (s *sample) takeAll(ctx context.Context, b *bench) {
	for ctx.Err() == nil && (b.begun.Add(1) <= int64(b.count) || b.count == 0) {
		if s.take(ctx, b) {
			b.done.Add(1)
			continue
		}
		b.failed.Add(1)
		_ = cli.Rest(ctx, failurePause)
	}
}

// take measures one acquisition and its release. One that has begun when ctx ends is finished, and
// counts.
func (s *sample) take(ctx context.Context, b *bench) bool {
	ctx = context.WithoutCancel(ctx)
	began := b.clock.Now()
	lock, err := b.locker.TryAcquire(ctx, s.name, b.ttl())
	if err != nil {
		return s.fails(err)
	}
	acquired := b.clock.Now()
	if err := lock.Release(ctx); err != nil {
		return s.fails(err)
	}
	released := b.clock.Now()
	s.acquire.add(acquired.Sub(began))
	s.release.add(released.Sub(acquired))
	s.both.add(released.Sub(began))
	return true
}

func (s *sample) fails(err error) bool {
	if s.errors == nil {
		s.errors = make(map[string]int)
	}
	s.errors[errorKind(err)]++
	return false
}

// errorKind returns an error's text without the parts that vary, such as durations, so that equal
// errors are counted together.
func errorKind(err error) string {
	for _, kind := range []error{
		redlock.ErrHeld, redlock.ErrTooLate, redlock.ErrLost, redlock.ErrQuarantined, redlock.ErrNoQuorum,
	} {
		if errors.Is(err, kind) {
			return cli.WithoutPrefix(kind)
		}
	}
	return cli.WithoutPrefix(err)
}
