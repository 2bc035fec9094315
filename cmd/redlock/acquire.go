//go:build unix && !aix && !solaris

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/go-redlock/redlock"
)

// acquire takes the lock, or says why it could not be had. SIGINT and its like end
// the wait.
func (p *plan) acquire(ctx context.Context, c *call, locker *redlock.Locker, in inbox) (*redlock.Lock, error) {
	ctx, stop := in.until(ctx)
	defer stop()
	lock, err := p.try(ctx, c, locker)
	if err == nil && ctx.Err() != nil { // the signal came too late for Acquire, but not for us
		go func() { _ = lock.Release(ctx) }() // closeSoon waits for it, as long as it waits for anything
		err = context.Cause(ctx)
	}
	var sig signalError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &sig):
		return nil, sig
	case refusal(err) == exitHeld:
		c.say("%s: %s", p.name, inShort(err))
	default:
		c.say("%v", err)
	}
	return nil, err
}

// try makes one attempt and then waits, so that a person is told for what.
func (p *plan) try(ctx context.Context, c *call, locker *redlock.Locker) (*redlock.Lock, error) {
	opts := []redlock.LockOption{
		redlock.WithAutoExtend(),
		redlock.WithMaxHold(redlock.NoMaxHold), // the command is what bounds it
		redlock.WithStopMargin(p.margin()),
	}
	lock, err := locker.TryAcquire(ctx, p.name, p.ttl, opts...)
	waits := errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTooLate) ||
		errors.Is(err, redlock.ErrQuarantined)
	if p.wait == 0 || !waits || errors.Is(err, redlock.ErrForeignKey) || ctx.Err() != nil {
		return lock, err
	}
	if !p.line.begin(p.wait, err) {
		c.say("waiting up to %v for %s: %s", p.wait, p.name, inShort(err))
	}
	defer p.line.end()
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	lock, waitErr := locker.Acquire(ctx, p.name, p.ttl, opts...)
	if errors.Is(waitErr, context.DeadlineExceeded) && !errors.Is(waitErr, redlock.ErrHeld) && !foundFault(waitErr) {
		return nil, err // it was cut off while it asked: what was known before stands
	}
	return lock, waitErr
}

// foundFault reports whether any node failed, or was silent for as long as it may be.
func foundFault(err error) bool {
	var qe *redlock.QuorumError
	return errors.As(err, &qe) && slices.ContainsFunc(qe.Votes, func(v redlock.Vote) bool {
		return v.Outcome == redlock.Failed || errors.Is(v.Err, redlock.ErrNodeTimeout)
	})
}
