package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// acquireQueued queues the request, and makes attempts at the head of the queue until one succeeds.
func (l *Locker) acquireQueued(ctx context.Context, w *request) (*Lock, error) {
	began := l.traceTime()
	v := &w.waiter
	v.enqueue(ctx, l, w)
	defer v.dequeue()
	k, n, err := v.run()
	if err != nil {
		l.traceAcquireFailed(ctx, w, err, began)
		return nil, err
	}
	l.traceAcquired(k, n, began)
	return k, nil
}

// errQueued is the reason of an Acquire that ended in the queue: another request of this process
// holds the name or contends for it.
var errQueued = fmt.Errorf("%w: queued after other requests of this process", ErrHeld)

func (l *Locker) waitError(w *request, cause, last error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return &waitError{op: "acquire", names: w.names, cause: cause, last: last}
}

// permanent reports whether another attempt would be useless.
func (l *Locker) permanent(w *request, err error) bool {
	var qe *QuorumError
	var we *waitError
	switch {
	case errors.As(err, &we), !errors.As(err, &qe):
		return true // the context ended, or the nodes did not refuse
	case errors.Is(qe.Reason, ErrNoQuorum), errors.Is(qe.Reason, ErrQuarantined):
		return w.opts.failFast
	}
	return qe.foreign()
}

// foreign reports whether keys that are not locks leave no quorum.
func (e *QuorumError) foreign() bool {
	n := 0
	for _, v := range e.Votes {
		if errors.Is(v.Err, ErrForeignKey) {
			n++
		}
	}
	return n > len(e.Votes)-e.Need
}

// quarantineDelay returns how long to pause when quarantines leave no quorum. It is at most a
// second, so that an admission is noticed soon.
func quarantineDelay(err error) time.Duration {
	var qe *QuorumError
	if !errors.As(err, &qe) || !errors.Is(qe.Reason, ErrQuarantined) {
		return 0
	}
	return min(qe.QuarantinedFor()+quarantineSlack, time.Second)
}

// quarantineSlack is how long after a quarantine's end the next attempt is made.
const quarantineSlack = 5 * time.Millisecond

// backoff is the pause between two attempts. It starts at one round trip and doubles. The jitter
// covers all of the growth, so that contenders with a split vote drift apart (docs/dev/rules.md rule
// 22).
type backoff struct {
	min, max time.Duration // 0 < min <= max
	current  time.Duration
}

func (b *backoff) next(roundTrip time.Duration) time.Duration {
	// Half of the range is left for jitter, however long a round trip takes.
	least := max(b.min, min(roundTrip, b.max/2))
	if b.current > b.max/2 {
		b.current = b.max
	} else {
		b.current = max(2*b.current, least)
	}
	return least + rand.N(min(b.current, b.max-least)+1)
}
