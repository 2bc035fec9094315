package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// acquisition is one call of an Acquire method or of Do, or a campaign of Lead: a loop of attempts. It implements
// waiting.Contender. One goroutine uses it. While it waits, that of a release calls NewAttempt, and that of a call which
// gives up calls Inherits.
type acquisition struct {
	call
	singleAttempt bool // TryAcquire

	began    clock.Instant // the call, if a trace or a log needs it
	failures int           // attempts that failed
	waits    bool          // it has waited, and is counted in core.waits
	last     error         // error of the last attempt
}

func (a *acquisition) acquire(ctx context.Context, opts []LockOption) (*Lock, error) {
	if a.l.isClosed() {
		return nil, closedError(a.names)
	}
	a.caller, a.parent = ctx, heldWithin(ctx)
	var holder *Lock
	var all bool
	if a.parent != nil {
		holder, all = holderWithin(a.l, a.parent, a.names)
	}
	a.opts = gather(a.l.set.lockDefaults, opts)
	shares := holder != nil && a.opts.shared
	if shares {
		a.opts = gather(nil, opts)
	}
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	switch {
	case shares && all:
		return newShare(&a.call, holder)
	case shares:
		return nil, fmt.Errorf("%w: %s in part: a share needs a lock on all names", ErrAlreadyHeld, quoted(a.names))
	case holder != nil:
		return nil, fmt.Errorf("%w: %s is held by the lock of the context (WithShared)", ErrAlreadyHeld, quoted(a.names))
	}
	a.began = a.l.reporter.now()
	lk, err := a.acquireWithin(ctx)
	err = a.l.registry.named(err, a.names)
	if d := a.l.reporter; d != nil {
		attempts := a.failures
		if lk != nil {
			attempts++
		}
		a.trace(d.hooks.Acquired, WaitEvent{Attempts: attempts, Err: err})
	}
	return lk, err
}

// check rejects arguments that are out of bounds, before anything is sent.
func (a *acquisition) check(ctx context.Context) error {
	if err := joinInvalid(a.l.set.checkLock(a.ttl, &a.opts), a.l.set.checkNames(a.names)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &waitError{op: "acquire", names: a.names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	return nil
}

// acquireWithin makes attempts within the bound of WithWait, if there is one. The context that ends
// the wait is no parent of the lock's.
func (a *acquisition) acquireWithin(ctx context.Context) (*Lock, error) {
	switch {
	case a.singleAttempt, a.opts.waitBounded && a.opts.wait == 0:
		return a.try(ctx)
	case !a.opts.waitBounded:
		return a.acquireQueued(ctx)
	}
	wait, end := context.WithCancelCause(ctx)
	defer end(nil)
	bound := a.l.set.clock.AfterFunc(a.opts.wait, func() { end(fmt.Errorf("waited for %v", a.opts.wait)) })
	defer bound.Stop()
	return a.acquireQueued(wait)
}

// try makes attempts until one contender has the lock or the node timeout is over.
func (a *acquisition) try(ctx context.Context) (*Lock, error) {
	start, timeout, pause := a.l.now(), a.l.set.timeout(a.ttl), a.l.set.backoff
	var before error // of the attempt before
	for {
		lk, seen, lost := a.attempt(ctx, nil)
		switch {
		case lost == nil:
			return lk, nil
		case before != nil && (seen.Why == verdict.Cut || ctx.Err() != nil): // it has seen less than the one before it
			return nil, a.waitError(endedBy(ctx), before)
		case seen.Why == verdict.Cut && ctx.Err() != nil: // if only Close cut it short, the caller gets the error of the attempt
			return nil, a.waitError(context.Cause(ctx), lost)
		case !isSplit(lost):
			return nil, lost
		}
		d := pause.Next(seen.Took)
		if !a.l.now().Add(d).Before(start.Add(timeout)) {
			if seen.Blocked > timeout/2 {
				lost = unsplit(lost)
			}
			return nil, lost
		}
		if err := a.l.waiting.Sleep(ctx, d); err != nil {
			return nil, a.waitError(err, lost)
		}
		before = lost
	}
}

// endedBy returns why a call was cut short: the context's cause, or else ErrClosed.
func endedBy(ctx context.Context) error {
	return cmp.Or(context.Cause(ctx), ErrClosed)
}

func isSplit(err error) bool {
	var e *QuorumError
	return errors.As(err, &e) && e.Split
}

// unsplit returns the error of the last attempt with Split cleared: the same keys have blocked the
// lock throughout, so a holder has them and the votes are not split.
func unsplit(err error) error {
	var e *QuorumError
	if !errors.As(err, &e) {
		return err
	}
	held := *e // a hook may be reading e
	held.Split = false
	return &held
}

// acquireQueued enters the queue, and makes attempts at the head of the queue until one succeeds or ctx
// ends. It leaves the queue, and ends its wait, also if the caller's context panics.
func (a *acquisition) acquireQueued(ctx context.Context) (lk *Lock, err error) {
	defer a.endWait()
	defer a.waiter.Leave()
	a.last = errQueued
	a.waiter.FailFast = a.opts.failFast
	begun, err := a.l.waiting.Enter(ctx, &a.waiter, a.names, a)
	for n := 1; err == nil; n++ {
		lk, seen, lost := a.attempt(ctx, begun)
		if lost == nil {
			return lk, nil
		}
		if ctx.Err() != nil && n > 1 {
			// An attempt that was cut short, or its query, has seen less than those before it.
			break
		}
		a.last = lost
		a.l.waiting.NoteOutage(&a.waiter, outageIn(lost))
		if a.permanent(lost) {
			return nil, lost
		}
		a.traceWaiting()
		seen.Pause = quarantineDelay(lost)
		begun, err = a.waiter.Wait(seen)
	}
	if outage, ok := err.(waiting.Outage); ok { //nolint:errorlint // a context's cause is not searched
		return nil, withNames(a.names, outage.Why)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, a.waitError(err, a.last)
}

// outageIn returns the error of an attempt if no quorum of nodes could be reached, or else nil.
func outageIn(err error) error {
	var we *waitError
	var qe *QuorumError
	if !errors.As(err, &we) && errors.As(err, &qe) && (errors.Is(qe.Reason, ErrNoQuorum) || errors.Is(qe.Reason, ErrQuarantined)) {
		return qe
	}
	return nil
}

// withNames returns the error of another call's attempt as that of a call for these names. Who holds other names says
// nothing of them.
func withNames(names []string, err error) error {
	var other *QuorumError
	if !errors.As(err, &other) || slices.Equal(names, other.Names) {
		return err
	}
	own := *other
	own.Names, own.Votes = names, slices.Clone(other.Votes)
	for i := range own.Votes {
		if v := &own.Votes[i]; errors.Is(v.Err, ErrHeld) {
			v.Err = nil
		}
	}
	return &own
}

// permanent reports whether another attempt would be useless.
func (a *acquisition) permanent(err error) bool {
	var qe *QuorumError
	var we *waitError
	switch {
	case errors.As(err, &we), !errors.As(err, &qe):
		return true // the context ended, or the nodes did not refuse
	case qe.blockedBy(ErrForeignKey), qe.blockedBy(ErrGuardMismatch):
		return true
	}
	return a.opts.failFast && outageIn(err) != nil
}

func (a *acquisition) waitError(cause, last error) error {
	if a.l.isClosed() && errors.Is(cause, ErrClosed) { // not that of another Locker, whose lock the context belongs to
		return ErrClosed
	}
	if errors.Is(last, errQueued) {
		last = a.queuedBehind()
	}
	return &waitError{op: "acquire", names: a.names, cause: cause, last: last}
}

// errQueued is the reason of an Acquire that is in the queue: another call of this process holds the
// name or contends for it.
var errQueued error = &queuedError{}

// queuedBehind is errQueued with the lock of this process that holds the name, if one does. During an outage it is what
// the call ahead has seen.
func (a *acquisition) queuedBehind() error {
	lk := a.holderHere()
	if lk == nil {
		return cmp.Or(withNames(a.names, a.l.waiting.Outage(&a.waiter)), errQueued)
	}
	return &queuedError{
		held:  &HeldError{Owner: command.Owner(lk.args.Token()), ID: lk.ID(), Remaining: max(0, lk.Remaining()), here: true},
		since: a.l.now().Sub(lk.holder.Began),
	}
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

// NewAttempt makes an attempt for a handoff. It implements waiting.Contender.
func (a *acquisition) NewAttempt() *vote.Round {
	lk, err := a.newAttempt()
	if err != nil {
		return nil
	}
	lk.holder.HandedOff = true
	return lk.keys.acquire
}

// Failed returns which nodes failed in the last attempt.
func (a *acquisition) Failed() []bool {
	failed := make([]bool, len(a.l.nodes))
	var last *QuorumError
	if errors.As(a.last, &last) {
		for i := range last.Votes {
			failed[i] = last.Votes[i].Outcome == OutcomeFailed
		}
	}
	return failed
}

// Waits counts the call once as one that waits. It implements waiting.Contender.
func (a *acquisition) Waits() {
	if !a.waits {
		a.waits = true
		a.l.waits.Add(1)
	}
}

// endWait ends what Waits has counted.
func (a *acquisition) endWait() {
	if a.waits {
		a.l.waits.Add(-1)
	}
}

// Inherits takes over the error of the last attempt of a call that gave up: it has the holder.
func (a *acquisition) Inherits(from waiting.Contender) {
	if before := from.(*acquisition).last; errors.Is(a.last, errQueued) {
		a.last = before
	}
}

// Woken reports why the call makes another attempt.
func (a *acquisition) Woken(why waiting.Reason) {
	if d := a.l.reporter; d != nil {
		a.trace(d.hooks.Woken, WaitEvent{Attempts: a.failures, Err: a.last, Reason: why.String()})
	}
}

// Polled updates the remaining times of the keys in the error of the last attempt. It copies the
// error, because a hook may be reading it. It reports that the call still waits.
func (a *acquisition) Polled(until []clock.Instant, stillHeld bool) {
	if stillHeld {
		defer a.traceWaiting()
	}
	var last *QuorumError
	if !errors.As(a.last, &last) {
		return
	}
	now := a.l.now()
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
	a.last = &fresh
}

// trace completes an event of the call, and reports it.
func (a *acquisition) trace(hook func(WaitEvent), e WaitEvent) {
	if hook == nil {
		return
	}
	e.EventInfo, e.Waited = a.l.reporter.info(a.caller, a.names), a.l.now().Sub(a.began)
	post(a.l.reporter, hook, e)
}

// traceWaiting reports that the call waits after its last attempt.
func (a *acquisition) traceWaiting() {
	if d := a.l.reporter; d != nil {
		a.trace(d.hooks.Waiting, WaitEvent{Attempts: a.failures, Err: a.last})
	}
}
