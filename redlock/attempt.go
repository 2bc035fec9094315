package redlock

import (
	"context"

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
	if decided, lost := (attempt{a, lk}).finish(ctx); lost != nil {
		a.failures++
		seen, lost := a.describeHolders(ctx, lk, lost)
		a.l.reporter.attempt(&lk.hold, lost, decided, 0)
		seen.Took = decided.Sub(lk.holder.Began)
		a.patient = seen.Oldest > vote.TieTimeout(0)
		return nil, seen, lost
	}
	if a.l.isClosed() { // won while Close listed the held locks
		lk.end(ErrClosed, undoUnused)
		return nil, verdict.Contention{}, ErrClosed
	}
	return lk, verdict.Contention{}, nil
}

// attempt is one request to all nodes for a lock, with a token of its own, and its outcome.
type attempt struct {
	*acquisition
	lk *Lock
}

// finish waits for the outcome of a submitted attempt, and begins the hold or the undo. It returns when it was
// decided.
func (a attempt) finish(ctx context.Context) (decided clock.Instant, err error) {
	until := a.lk.keys.acquire.Request.NotAfter
	a.lk.keys.acquire.Wait(ctx.Done())
	now := a.l.now()
	err = a.checkWon(ctx, until, now)
	if err == nil && a.l.set.fencing {
		err = a.resolveFence(ctx, until)
		now = a.l.now()
	}
	if err != nil {
		a.l.group.NoteEnded(a.lk.args.Token(), false)
		a.lk.startUndo()
		return now, err
	}
	a.l.group.NoteDecided(a.lk.keys.acquire, until, a.lk.fence)
	a.l.waiting.Acquired(&a.lk.holder, &a.waiter) // before markHeld: from there on a timer may end the hold, and Ended must find it
	a.l.reporter.attempt(&a.lk.hold, nil, now, until.Sub(now))
	a.lk.markHeld(until, now)
	return now, nil
}

// fill fills in the request of the acquisition.
func (a attempt) fill(r *command.Request) {
	set := &a.l.set
	if set.fencing {
		a.lk.args.SetCounters(set.clustered)
		command.NewFencedAcquire(r, &a.lk.args, a.lk.opts.ttl, set.maxTTL, set.hint(), set.clamp())
		return
	}
	command.NewAcquire(r, &a.lk.args, a.lk.opts.ttl, set.maxTTL)
}

// checkWon returns nil if the attempt is now a lock. now was read after the decision: a quorum
// alone is not enough (docs/dev/hazards.md H6).
func (a attempt) checkWon(ctx context.Context, until, now clock.Instant) error {
	r := a.lk.keys.acquire
	won := r.Won()
	a.lk.applyDueOutside() // may end ctx
	switch {
	case ctx.Err() != nil:
		last := lossError(r)
		if won {
			last.Reason = ErrTooLate
		}
		return &waitError{op: "acquire", names: a.names, cause: context.Cause(ctx), last: last}
	case a.l.isClosed():
		return ErrClosed
	case !won:
		return lossError(r)
	case !a.lk.lease.Terms.Suffices(until.Sub(now)):
		return votesError(r, ErrTooLate)
	}
	return nil
}

// newAttempt makes an attempt that is ready to be submitted.
func (a *acquisition) newAttempt() (*Lock, error) {
	start := a.l.now() // before the first send (docs/dev/hazards.md H5)
	lk := a.newLock(command.NewToken(a.l.set.owner))
	if err := a.l.registry.add(lk); err != nil {
		return nil, err
	}
	lk.holder.Began = start
	r := a.l.group.New(&noEvents, lk, lk.holder.Names)
	attempt{a, lk}.fill(&r.Request)
	r.Start = start
	r.Request.NotAfter = quorum.Until(start, lk.opts.ttl, a.l.set.drift)
	r.Patient, r.Timer = a.patient, &lk.timer
	r.Arm(a.l.set.timeout(a.ttl))
	lk.keys.acquire = r
	a.l.group.NoteBegan(r)
	return lk, nil
}

// newLock makes a Lock. It is the hot path, so it makes few allocations.
func (a *acquisition) newLock(token string) *Lock {
	ttl := max(a.ttl, a.opts.minHold)
	lk := &Lock{hold: hold{l: a.l}}
	lk.opts = holdOptions{
		ttl: ttl, minHold: a.opts.minHold, asyncRelease: a.opts.asyncRelease,
		boundToCaller: a.boundToCaller, leads: a.leads,
	}
	lk.family.acquiredUnder = a.parent
	lk.caller, lk.keys.longest = a.caller, ttl
	lk.lease.Terms = a.l.set.leaseTerms(ttl, &a.opts)
	lk.holder.Names, lk.holder.Owner = a.names, lk
	lk.args.Set(a.l.set.keys(lk.holder.Names), token)
	lk.args.UnderGuard = a.l.set.guarded
	return lk
}
