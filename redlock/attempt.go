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
func (l *Locker) attempt(
	ctx context.Context, w *request, start clock.Instant, begun *vote.Round,
) (*Lock, verdict.Contention, error) {
	var lk *Lock
	if begun != nil {
		lk = begun.Owner.(*Lock)
	} else {
		var err error
		if lk, err = l.newAttempt(w, start); err != nil {
			return nil, verdict.Contention{}, err
		}
		lk.keys.acquire.Send(nil).Settle()
	}
	if lost := l.finishAttempt(ctx, w, lk); lost != nil {
		w.failures++
		decided := lk.keys.undo.Load().Start
		seen, lost := l.describeHolders(ctx, w, lk, lost)
		l.traceAttempt(lk, lost, decided, 0)
		seen.Took = decided.Sub(start)
		w.patient = seen.Oldest > vote.TieTimeout(0)
		return nil, seen, lost
	}
	if l.isClosed() { // won while Close listed the held locks
		lk.end(ErrClosed, undoKeys)
		return nil, verdict.Contention{}, ErrClosed
	}
	return lk, verdict.Contention{}, nil
}

// newAttempt makes an attempt that is ready to be submitted. start is the time before the first
// send.
func (l *Locker) newAttempt(w *request, start clock.Instant) (*Lock, error) {
	lk := l.newLock(w, command.NewToken(l.set.owner))
	if err := l.registry.add(lk); err != nil {
		return nil, err
	}
	lk.hold.Began = start
	r := l.group.New(&noEvents, lk, lk.hold.Names)
	lk.fillAcquire(&r.Request)
	r.Start = start
	r.Request.NotAfter = quorum.Until(start, lk.opts.ttl, l.set.drift)
	r.Patient = w.patient
	r.Arm(l.set.timeout(w.ttl))
	lk.keys.acquire = r
	l.group.NoteBegan(r)
	return lk, nil
}

// finishAttempt waits for the outcome of a submitted attempt, and begins the hold or the undo.
func (l *Locker) finishAttempt(ctx context.Context, w *request, lk *Lock) error {
	until := lk.keys.acquire.Request.NotAfter
	lk.keys.acquire.Wait(ctx.Done())
	now := l.now()
	err := lk.checkWon(ctx, until, now)
	if err == nil && l.set.fencing {
		err = lk.resolveFence(ctx, until)
		now = l.now()
	}
	if err != nil {
		l.group.NoteEnded(lk.args.Token(), false)
		lk.startUndo()
		return err
	}
	l.group.NoteDecided(lk.keys.acquire, until, lk.fence)
	l.waiting.Acquired(&lk.hold, &w.waiter) // before markHeld: from there on a timer may end the hold, and Ended must find it
	l.traceAttempt(lk, nil, now, until.Sub(now))
	lk.markHeld(until, now)
	return nil
}

// insufficient reports whether a validity is useless: the context would end at once.
func (lk *Lock) insufficient(left time.Duration) bool { return left <= lk.lease.Terms.StopMargin }

// newLock makes a Lock. It is the hot path, so it makes few allocations.
func (l *Locker) newLock(w *request, token string) *Lock {
	ttl := max(w.ttl, w.opts.minHold)
	lk := &Lock{l: l}
	lk.opts = holdOptions{
		ttl: ttl, minHold: w.opts.minHold, asyncRelease: w.opts.asyncRelease,
		boundToCaller: w.boundToCaller, leads: w.leads,
	}
	lk.family.acquiredUnder = w.parent
	lk.ctx.parent, lk.keys.longest = w.caller, ttl
	lk.lease.Terms = l.leaseTerms(ttl, &w.opts)
	lk.hold.Names, lk.hold.Owner = w.names, lk
	lk.args.Set(l.keys(lk.hold.Names), token)
	lk.args.UnderGuard = l.set.guarded
	return lk
}

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
