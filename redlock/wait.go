package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// contend waits in line, and at its head attempts until it succeeds.
func (l *Locker) contend(ctx context.Context, w *wish) (*Lock, error) {
	began := l.traceTime()
	v := &w.waiter
	v.enter(ctx, l, w)
	defer v.leave()
	k, n, err := v.contend()
	if err != nil {
		l.traceAcquireFailed(ctx, w, err, began)
		return nil, err
	}
	l.traceAcquired(k, n, began)
	return k, nil
}

// errBehind is the reason of an Acquire that ended in line: somebody of this process
// holds the name or contends for it.
var errBehind = fmt.Errorf("%w: in line behind others of this process", ErrHeld)

func (l *Locker) gaveUp(w *wish, cause, last error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return &waitError{op: "acquire", names: w.names, cause: cause, last: last}
}

// hopeless reports whether another attempt would be of no use.
func (l *Locker) hopeless(w *wish, err error) bool {
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

// quarantined is how long to leave nodes in peace that can't vote yet: not much longer
// than it takes to notice that one was admitted.
func quarantined(err error) time.Duration {
	var qe *QuorumError
	if !errors.As(err, &qe) || !errors.Is(qe.Reason, ErrQuarantined) {
		return 0
	}
	return min(qe.QuarantinedFor()+quarantineMargin, time.Second)
}

// quarantineMargin is how long after a quarantine's end it is noticed at the latest.
const quarantineMargin = 5 * time.Millisecond

// backoff is the pause between two attempts: from one round trip upward, doubling,
// with jitter over all of what it has grown by, so that contenders who split the
// votes part ways (docs/rules.md rule 22).
type backoff struct {
	least, most time.Duration // 0 < least <= most
	grown       time.Duration
}

func (b *backoff) next(roundTrip time.Duration) time.Duration {
	// Half of the range stays open to jitter, however long a round trip takes.
	least := max(b.least, min(roundTrip, b.most/2))
	if b.grown > b.most/2 {
		b.grown = b.most
	} else {
		b.grown = max(2*b.grown, least)
	}
	return least + rand.N(min(b.grown, b.most-least)+1)
}
