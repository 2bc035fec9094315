package request

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

// Acquire acquires the lock, or reports why it could not. SIGINT and the other end signals end the
// wait.
func (req *Request) Acquire(ctx context.Context, c *cli.Invocation, locker *redlock.Locker, in cli.Signals, opts ...redlock.LockOption) (*redlock.Lock, error) {
	wait, stop := in.Until(ctx)
	lock, err := req.tryThenWait(wait, c, locker, opts)
	stop() // a signal has ended this wait, or remains in the queue (not where package cli has no queue)
	var sig cli.SignalError
	signalled := errors.As(context.Cause(wait), &sig)
	if err == nil && (signalled || ctx.Err() != nil) { // the signal came too late for tryThenWait, but in time for this function
		go func() { _ = lock.Release(ctx) }() // cli.CloseSoon waits for it within cli.CloseTimeout
		err = context.Cause(wait)
	}
	var qe *redlock.QuorumError
	switch {
	case err == nil:
		return lock, nil
	case signalled: // also if the answer of the nodes came last
		c.FailSilently(sig, "the signal "+sig.Error()+" ended the wait")
		return nil, sig
	case req.skips(err): // cron would mail any message
		c.FailSilently(err, req.Name+": "+cli.Brief(err))
	case cli.Refusal(err) == cli.ExitHeld:
		c.Fail(err, "%s: %s", req.Name, cli.Brief(err))
	case errors.Is(err, context.DeadlineExceeded) && errors.As(err, &qe):
		c.Fail(err, "after a wait of %v: %v", req.Wait, qe)
	default:
		c.Refused(err)
	}
	return nil, err
}

// skips reports whether an error is the one for which --skip-status was given: another client holds
// the lock. A job that every machine skips in silence would be missed.
func (req *Request) skips(err error) bool {
	return req.SkipStatus != NoSkip && redlock.HeldBy(err) != nil
}

// Refusal returns the exit status for an error of acquire.
func (req *Request) Refusal(err error) int {
	if req.skips(err) {
		return req.SkipStatus
	}
	return cli.Refusal(err)
}

// tryThenWait makes one attempt and then waits, so that a person sees the reason for the wait.
func (req *Request) tryThenWait(ctx context.Context, c *cli.Invocation, locker *redlock.Locker, opts []redlock.LockOption) (*redlock.Lock, error) {
	g := cli.RestartGuard{Locker: locker, MaxTTL: req.guard}
	var lock *redlock.Lock
	attempt := func(ctx context.Context) (err error) {
		lock, err = locker.TryAcquire(ctx, req.Name, req.TTL, opts...)
		return err
	}
	notBegun := g.BegunFor(ctx, attempt)
	err := notBegun
	if err == nil {
		err = attempt(ctx)
	}
	if req.Wait == 0 || !mayPass(err) || ctx.Err() != nil {
		return lock, err
	}
	if !req.status.begin(req.Wait, err) && !req.skips(err) {
		c.Say("waiting up to %v for %s: %s", req.Wait, req.Name, cli.Brief(err))
	}
	defer req.status.End()
	ctx, cancel := context.WithTimeout(ctx, req.Wait)
	defer cancel()
	if notBegun = g.Await(ctx, notBegun); notBegun != nil {
		return nil, notBegun
	}
	lock, waitErr := locker.Acquire(ctx, req.Name, req.TTL, opts...)
	switch {
	case !errors.Is(waitErr, context.DeadlineExceeded):
	case !decided(waitErr):
		return nil, err // the deadline cut its first attempt short: the earlier error knows more
	case errors.Is(waitErr, redlock.ErrHeld) && !namesAllHolders(waitErr) && namesHolder(err):
		return nil, err // it cut the query for the holder short
	}
	return lock, waitErr
}

// mayPass reports whether an attempt may have another outcome later.
func mayPass(err error) bool {
	if cli.IsForeign(err) || cli.IsGuardMismatch(err) {
		return false
	}
	return errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTooLate) ||
		errors.Is(err, redlock.ErrQuarantined)
}

// namesHolder reports whether an error names the holder of the lock.
func namesHolder(err error) bool {
	var held *redlock.HeldError
	return errors.As(err, &held)
}

// namesAllHolders reports whether an error names the holder for every node that refused. A query that
// was cut short leaves some out.
func namesAllHolders(err error) bool {
	var qe *redlock.QuorumError
	return errors.As(err, &qe) && !slices.ContainsFunc(qe.Votes, func(v redlock.Vote) bool {
		return v.Outcome == redlock.OutcomeRefused && !namesHolder(v.Err)
	})
}

// decided reports whether the votes decide an attempt: a quorum granted or refused, or so many nodes
// failed, or did not answer within the node timeout, that no quorum is left.
func decided(err error) bool {
	var qe *redlock.QuorumError
	if !errors.As(err, &qe) {
		return false
	}
	votes, faults := 0, 0
	for _, v := range qe.Votes {
		switch {
		case v.Outcome == redlock.OutcomeGranted, v.Outcome == redlock.OutcomeRefused:
			votes++
		case v.Outcome == redlock.OutcomeFailed, errors.Is(v.Err, redlock.ErrNodeTimeout):
			faults++
		}
	}
	return votes >= qe.Need || faults > len(qe.Votes)-qe.Need
}
