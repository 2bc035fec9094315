package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// acquireQueued waits in line, and at its head attempts until it succeeds.
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

// errQueued is the reason of an Acquire that ended in line: somebody of this process
// holds the name or contends for it.
var errQueued = fmt.Errorf("%w: in line behind others of this process", ErrHeld)

func (l *Locker) waitError(w *request, cause, last error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return &waitError{op: "acquire", names: w.names, cause: cause, last: last}
}

// permanent reports whether another attempt would be of no use.
func (l *Locker) permanent(w *request, err error) bool {
	var qe *QuorumError
	var we *waitError
	switch {
	case errors.As(err, &we), !errors.As(err, &qe):
		return true // the context ended, or it was not the nodes that said no
	case errors.Is(qe.Reason, ErrNoQuorum), errors.Is(qe.Reason, ErrQuarantined):
		return w.opts.failFast
	}
	return qe.foreign()
}

// foreign reports whether keys that are no locks leave no quorum.
func (e *QuorumError) foreign() bool {
	n := 0
	for _, v := range e.Votes {
		if errors.Is(v.Err, ErrForeignKey) {
			n++
		}
	}
	return n > len(e.Votes)-e.Need
}

// quarantineDelay is how long to leave nodes in peace that can't vote yet: not much longer
// than it takes to notice that one was admitted.
func quarantineDelay(err error) time.Duration {
	var qe *QuorumError
	if !errors.As(err, &qe) || !errors.Is(qe.Reason, ErrQuarantined) {
		return 0
	}
	return min(qe.QuarantinedFor()+quarantineSlack, time.Second)
}

// quarantineSlack is how long after a quarantine's end it is noticed at the latest.
const quarantineSlack = 5 * time.Millisecond

// backoff is the pause between two attempts: from one round trip upward, doubling,
// with jitter over all of what it has grown by, so that contenders who split the
// votes part ways (docs/rules.md rule 22).
type backoff struct {
	min, max time.Duration // 0 < least <= most
	current  time.Duration
}

func (b *backoff) next(roundTrip time.Duration) time.Duration {
	// Half of the range stays open to jitter, however long a round trip takes.
	least := max(b.min, min(roundTrip, b.max/2))
	if b.current > b.max/2 {
		b.current = b.max
	} else {
		b.current = max(2*b.current, least)
	}
	return least + rand.N(min(b.current, b.max-least)+1)
}
