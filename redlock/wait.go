package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// newWaitTable makes the table of the Locker's waiters and holders.
func newWaitTable(l *Locker) *waiting.Table {
	return waiting.NewTable(waiting.Config{
		Nodes: l.group.Nodes, Clock: l.set.clock, Timers: l.timers, Prefix: l.set.prefix, Backoff: l.set.backoff,
		PollTimeout: l.readTimeout(), OutageLeft: quarantineLeft, Closing: l.registry.closing, ErrClosed: ErrClosed,
	})
}

// acquireQueued queues the request, and makes attempts at the head of the queue until one succeeds or ctx
// ends. It leaves the queue, and ends its wait, also if the caller's context panics.
func (l *Locker) acquireQueued(ctx context.Context, w *request) (lk *Lock, err error) {
	defer w.endWait()
	defer w.waiter.Leave()
	w.last = errQueued
	begun, err := l.waiting.Enter(ctx, &w.waiter, w.names, w)
	for n := 1; err == nil; n++ {
		lk, seen, lost := l.attempt(ctx, w, l.now(), begun)
		if lost == nil {
			return lk, nil
		}
		if ctx.Err() != nil && n > 1 {
			// An attempt that was cut short, or its query, has seen less than those before it.
			break
		}
		if w.last = lost; l.permanent(w, lost) {
			return nil, lost
		}
		w.traceWaiting()
		seen.Pause = quarantineDelay(lost)
		begun, err = w.waiter.Wait(seen)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, l.waitError(w, err, w.last)
}

// NewAttempt makes an attempt for a handoff. It implements waiting.Contender.
func (w *request) NewAttempt() *vote.Round {
	lk, err := w.locker.newAttempt(w, w.locker.now())
	if err != nil {
		return nil
	}
	lk.hold.HandedOff = true
	return lk.keys.acquire
}

// Failed returns which nodes failed in the last attempt.
func (w *request) Failed() []bool {
	failed := make([]bool, len(w.locker.nodes))
	var last *QuorumError
	if errors.As(w.last, &last) {
		for i := range last.Votes {
			failed[i] = last.Votes[i].Outcome == OutcomeFailed
		}
	}
	return failed
}

// Waits counts the request once as one that waits. It implements waiting.Contender.
func (w *request) Waits() {
	if !w.waits {
		w.waits = true
		w.locker.waits.Add(1)
	}
}

// endWait ends what Waits has counted.
func (w *request) endWait() {
	if w.waits {
		w.locker.waits.Add(-1)
	}
}

// Woken reports why the request makes another attempt.
func (w *request) Woken(why waiting.Reason) {
	w.trace(w.locker.traces().Woken, WaitEvent{Attempts: w.failures, Err: w.last, Reason: why.String()})
}

// Polled updates the remaining times of the keys in the error of the last attempt. It copies the
// error, because a hook may be reading it. It reports that the request still waits.
func (w *request) Polled(until []clock.Instant, stillHeld bool) {
	if stillHeld {
		defer w.traceWaiting()
	}
	var last *QuorumError
	if !errors.As(w.last, &last) {
		return
	}
	now := w.locker.now()
	fresh := *last
	fresh.Votes = slices.Clone(last.Votes)
	for i := range fresh.Votes {
		var held *HeldError
		switch v := &fresh.Votes[i]; {
		case until[i] == 0 || !errors.As(v.Err, &held):
		case until[i] == noDeadline:
			v.Err = held.with(-time.Millisecond)
		default:
			v.Err = held.with(max(0, until[i].Sub(now)-waiting.ExpiryMargin))
		}
	}
	w.last = &fresh
}

// with returns the error with another remaining time. A hook may be reading the old one.
func (e *HeldError) with(remaining time.Duration) *HeldError {
	changed := *e
	changed.Remaining = remaining
	return &changed
}

// errQueued is the reason of an Acquire that is in the queue: another request of this process holds the
// name or contends for it.
var errQueued error = &queuedError{}

// queuedBehind is errQueued with the lock of this process that holds the name, if one does.
func (l *Locker) queuedBehind(names []string) error {
	lk := l.holderHere(names)
	if lk == nil {
		return errQueued
	}
	return &queuedError{
		held:  &HeldError{Owner: command.Owner(lk.args.Token()), ID: lk.ID(), Remaining: max(0, lk.Remaining()), here: true},
		since: l.now().Sub(lk.hold.Began),
	}
}

// holderHere returns the lock of this Locker that holds one of the names, or nil.
func (l *Locker) holderHere(names []string) *Lock {
	if h := l.waiting.Holder(names); h != nil {
		return h.Owner.(*Lock)
	}
	return nil
}

func (l *Locker) waitError(w *request, cause, last error) error {
	if l.isClosed() && errors.Is(cause, ErrClosed) { // not that of another Locker, whose lock the context belongs to
		return ErrClosed
	}
	if errors.Is(last, errQueued) {
		last = l.queuedBehind(w.names)
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
	case qe.blockedBy(ErrForeignKey), qe.blockedBy(ErrGuardMismatch):
		return true
	case errors.Is(qe.Reason, ErrNoQuorum), errors.Is(qe.Reason, ErrQuarantined):
		return w.opts.failFast
	}
	return false
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
