package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// Do acquires the lock on a name, calls fn on the caller's goroutine while the lock is held and
// extended, and releases the lock when fn returns. The context of fn is the lock's. It ends when ctx
// ends, or with the lock's cause when the lock ends (ErrLost, ErrMaxHold, ErrClosed). fn should then
// return, because Do waits for it.
//
// Do returns the error of the acquisition, as in Acquire, or the error of fn. If the lock ended
// before fn returned, the error also matches ErrLost or ErrMaxHold (*LostError), even if fn returned
// nil. An error of fn that has [Lock.Err] in it is returned as it is. If only WithStopMargin had ended
// the context, it does so when fn returned an error. In the same way it matches ErrClosed if fn returned
// an error after Locker.Close had ended the context.
// Under a share (WithShared) it also matches ErrReleased or ErrDetached if the shared lock was
// released or detached. Do returns no error if fn returned nil while the Locker was closed, or if the
// release could not be confirmed: the work ran under the lock, and leftover keys expire. If
// fn panics or calls runtime.Goexit, Do releases the lock first.
func (l *Locker) Do(ctx context.Context, name string, ttl time.Duration,
	fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	w := &acquisition{call: call{l: &l.core, names: []string{name}, ttl: ttl, boundToCaller: true}}
	lk, err := w.acquire(ctx, append([]LockOption{WithAutoExtend()}, opts...))
	if err != nil {
		return err
	}
	ended, err := runUnder(ctx, lk, fn)
	if err != nil && l.isClosed() && errors.Is(context.Cause(lk.Context()), ErrClosed) { //nolint:contextcheck // made by runUnder
		err = joinUnlessSaid(stoppedEarly(ErrClosed, lk), lk.named(ErrClosed), nil, err)
	}
	if ended != nil {
		return joinUnlessSaid(ended, asSaid(ended), nil, err)
	}
	return err
}

// Lead campaigns for a name, and calls fn whenever this process is elected: while it holds the lock on
// the name. It continues until ctx ends. Of all processes that lead the same name, one at a time is
// elected. Lead never campaigns again before fn has returned.
//
// The context of fn is the lock's. It ends when ctx ends, with the lock's cause when the lock ends, or with
// ErrClosed as soon as Locker.Close is called. fn must then return, because another process may be elected
// soon. The lock is extended without a bound on the hold, unless the call has WithMaxHold; that of
// WithDefaults does not count. A leader that hangs therefore leads until its process ends: WithProgress ends
// its lock instead.
//
// What Lead does when fn returns:
//
//   - The lock or its context had ended (ErrLost, ErrMaxHold, WithStopMargin): Lead campaigns again and
//     drops the error of fn, which often is the context's. fn reports its own errors.
//   - nil: fn has resigned. Lead releases the lock and campaigns again, so another process can win.
//   - An error: Lead releases the lock and returns the error.
//   - A panic or runtime.Goexit: Lead releases the lock first.
//
// Before Lead campaigns again it pauses for 100 to 200 ms. The pause doubles up to 10 s while fn returns
// within 10 s each time. When ctx ends, Lead waits for fn, releases the lock, and returns an error that
// matches context.Cause(ctx), joined with the error of fn if that is another one.
//
// Lead waits while another process leads, and while there is no quorum. It returns the errors with which
// Acquire ends without waiting: ErrInvalid, ErrAlreadyHeld and ErrClosed, and also ErrForeignKey or
// ErrGuardMismatch if so many nodes answer with one of them that the others are no majority. It never returns
// nil. WithWait, WithFailFast and WithShared have no effect.
func (l *Locker) Lead(ctx context.Context, name string, ttl time.Duration,
	fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	first := []LockOption{WithAutoExtend(), WithMaxHold(NoMaxHold)}
	last := []LockOption{Without(WithWait(0), WithFailFast(), WithShared()), lockOption(func(s *lockSettings) {
		if s.maxHold == 0 { // switched off by Without
			s.maxHold = NoMaxHold
		}
	})}
	opts = slices.Concat(first, opts, last)
	pause := campaignPause
	for {
		w := &acquisition{call: call{l: &l.core, names: []string{name}, ttl: ttl, boundToCaller: true, leads: true}}
		lk, err := w.acquire(ctx, opts)
		if err != nil {
			return err
		}
		began := l.now()
		ended, err := runUnder(ctx, lk, fn)
		switch {
		case ctx.Err() != nil:
			return joinUnlessSaid(context.Cause(ctx), context.Cause(ctx), ctx.Err(), err)
		case l.isClosed():
			closed := closedError(w.names)
			return joinUnlessSaid(closed, closed, context.Canceled, err)
		case ended == nil && err != nil:
			return err
		}
		if l.now().Sub(began) >= pause.Max {
			pause = campaignPause
		}
		if err := l.waiting.Sleep(ctx, pause.Next(0)); err != nil {
			return l.registry.named(err, w.names)
		}
	}
}

// campaignPause is the pause before a process campaigns again.
var campaignPause = waiting.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second}

// joinUnlessSaid returns the cause of an end, joined with the error of a function that was told of it,
// unless that error is the cause or what the function was told, or has said in it: what Lock.Err says.
func joinUnlessSaid(cause, said, told, err error) error {
	switch {
	case err == nil || errors.Is(cause, err) || errors.Is(told, err):
		return cause
	case errors.Is(err, said):
		return err
	case errors.Is(err, errors.Unwrap(said)) && strings.Contains(err.Error(), said.Error()):
		return err // it matches why the lock ended, and has the text of Lock.Err
	}
	return oneline.Join(cause, err)
}

// asSaid returns what Lock.Err says about the end of a lock: a loss, which matches all errors about it, or else a
// text with the lock's names.
func asSaid(ended error) error {
	var lost *LostError
	if errors.As(ended, &lost) {
		return lost
	}
	return ended
}

// runUnder calls fn under the lock, and releases the lock. ended is why the lock or its context ended before
// fn returned, or nil.
func runUnder(ctx context.Context, lk *Lock, fn func(ctx context.Context, lock *Lock) error) (ended, err error) {
	defer func() { _ = lk.Release(ctx) }() // for a panic, also of ctx; a second Release does nothing
	// contextWithin needs a parent that is a context of package context.
	link, unlink := context.WithCancel(ctx)
	defer unlink()
	err = fn(lk.contextWithin(link), lk)
	outlived := false // the lock, or a share of it
	for o := lk.outer; o != nil; o = o.outer {
		outlived = outlived || !lockOf(o).isHeld()
	}
	stopped := lk.contextCause()
	switch end := lk.Release(ctx); {
	case isEnd(end):
		return end, err
	case outlived:
		return lk.endError(), err
	case err != nil && isEnd(stopped): // by WithStopMargin; the lock was held until fn returned
		return stoppedEarly(stopped, lk), err
	}
	return nil, err
}

// stoppedEarly is the error of a function whose context had ended while the lock was held.
func stoppedEarly(cause error, lk *Lock) error {
	return fmt.Errorf("%w; its context ended before the function returned", lk.named(cause))
}

// isEnd reports whether an error says that a lock ended by itself.
func isEnd(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrMaxHold) }
