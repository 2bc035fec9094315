package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// attempt sends one request to all nodes, with a new token (docs/dev/hazards.md H3), or finishes an
// attempt that was handed off. If the attempt fails it undoes what the attempt may have written,
// and queries the nodes for the reason.
func (a *acquisition) attempt(ctx context.Context, begun *vote.Round) (*Lock, verdict.Contention, error) {
	var lk *Lock
	if begun != nil {
		lk = begun.Owner.(*Lock)
	} else {
		var err error
		if lk, err = a.newAttempt(); err != nil {
			return nil, verdict.Contention{}, err
		}
		lk.keys.acquire.Send(nil).Settle()
	}
	if decided, lost := a.finishAttempt(ctx, lk); lost != nil {
		a.failures++
		seen, lost := a.describeHolders(ctx, lk, lost)
		a.l.traceAttempt(lk, lost, decided, 0)
		seen.Took = decided.Sub(lk.hold.Began)
		a.patient = seen.Oldest > vote.TieTimeout(0)
		return nil, seen, lost
	}
	if a.l.isClosed() { // won while Close listed the held locks
		lk.end(ErrClosed, undoKeys)
		return nil, verdict.Contention{}, ErrClosed
	}
	return lk, verdict.Contention{}, nil
}

// newAttempt makes an attempt that is ready to be submitted.
func (a *acquisition) newAttempt() (*Lock, error) {
	start := a.l.now() // before the first send (docs/dev/hazards.md H5)
	lk := a.newLock(command.NewToken(a.l.set.owner))
	if err := a.l.registry.add(lk); err != nil {
		return nil, err
	}
	lk.hold.Began = start
	r := a.l.group.New(&noEvents, lk, lk.hold.Names)
	lk.fillAcquire(&r.Request)
	r.Start = start
	r.Request.NotAfter = quorum.Until(start, lk.opts.ttl, a.l.set.drift)
	r.Patient = a.patient
	r.Arm(a.l.set.timeout(a.ttl))
	lk.keys.acquire = r
	a.l.group.NoteBegan(r)
	return lk, nil
}

// finishAttempt waits for the outcome of a submitted attempt, and begins the hold or the undo. It returns when it was
// decided.
func (a *acquisition) finishAttempt(ctx context.Context, lk *Lock) (decided clock.Instant, err error) {
	until := lk.keys.acquire.Request.NotAfter
	lk.keys.acquire.Wait(ctx.Done())
	now := a.l.now()
	err = lk.checkWon(ctx, until, now)
	if err == nil && a.l.set.fencing {
		err = lk.resolveFence(ctx, until)
		now = a.l.now()
	}
	if err != nil {
		a.l.group.NoteEnded(lk.args.Token(), false)
		lk.startUndo()
		return now, err
	}
	a.l.group.NoteDecided(lk.keys.acquire, until, lk.fence)
	a.l.waiting.Acquired(&lk.hold, &a.waiter) // before markHeld: from there on a timer may end the hold, and Ended must find it
	a.l.traceAttempt(lk, nil, now, until.Sub(now))
	lk.markHeld(until, now)
	return now, nil
}

// newLock makes a Lock. It is the hot path, so it makes few allocations.
func (a *acquisition) newLock(token string) *Lock {
	ttl := max(a.ttl, a.opts.minHold)
	lk := &Lock{l: a.l}
	lk.opts = holdOptions{
		ttl: ttl, minHold: a.opts.minHold, asyncRelease: a.opts.asyncRelease,
		boundToCaller: a.boundToCaller, leads: a.leads,
	}
	lk.family.acquiredUnder = a.parent
	lk.ctx.parent, lk.keys.longest = a.caller, ttl
	lk.lease.Terms = a.l.set.leaseTerms(ttl, &a.opts)
	lk.hold.Names, lk.hold.Owner = a.names, lk
	lk.args.Set(a.l.set.keys(lk.hold.Names), token)
	lk.args.UnderGuard = a.l.set.guarded
	return lk
}

// insufficient reports whether a validity is useless: the context would end at once.
func (lk *Lock) insufficient(left time.Duration) bool { return left <= lk.lease.Terms.StopMargin }

// fillAcquire fills in the request of the acquisition.
func (lk *Lock) fillAcquire(r *command.Request) {
	if lk.l.set.fencing {
		lk.fillFencedAcquire(r)
		return
	}
	command.NewAcquire(r, &lk.args, lk.opts.ttl, lk.l.set.maxTTL)
}

// checkWon returns nil if the attempt is now a lock. now was read after the decision: a quorum
// alone is not enough (docs/dev/hazards.md H6).
func (lk *Lock) checkWon(ctx context.Context, until, now clock.Instant) error {
	r := lk.keys.acquire
	won := r.Won()
	lk.applyDueOutside() // may end ctx
	switch {
	case ctx.Err() != nil:
		last := lossError(r)
		if won {
			last.Reason = ErrTooLate
		}
		return &waitError{op: "acquire", names: lk.hold.Names, cause: context.Cause(ctx), last: last}
	case lk.l.isClosed():
		return ErrClosed
	case !won:
		return lossError(r)
	case lk.insufficient(until.Sub(now)):
		return votesError(r, ErrTooLate)
	}
	return nil
}
