package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// call is what a call of an Acquire method or of Resume asks for, and what its attempts have seen.
type call struct {
	l             *core
	names         []string // sorted
	ttl           time.Duration
	opts          lockSettings
	boundToCaller bool            // the lock's context ends with the caller's
	leads         bool            // Lead
	caller        context.Context // of the call, and the parent of the lock's context
	parent        heldContext     // of the caller's context; may be nil

	waiter    waiting.Waiter
	sightings verdict.Sightings
	patient   bool // attempts wait for distant nodes in a tie: a key stays on a node, so not only contenders have split the votes
}

// newAttempt makes an attempt that is ready to be submitted.
func (a *call) newAttempt() (*Lock, error) {
	start := a.l.now() // before the first send (docs/dev/hazards.md H5)
	lk := a.newLock(command.NewToken(a.l.set.owner))
	if err := a.l.registry.add(&lk.hold); err != nil {
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
func (a *call) newLock(token string) *Lock {
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

// newShare makes a share of lk, which may be a share itself. The share ends with lk. The options of
// WithDefaults do not apply: some are not possible for a share.
func newShare(a *call, lk *Lock) (*Lock, error) {
	root := lockOf(lk.keeper())
	switch {
	case a.ttl > root.opts.ttl:
		return nil, invalid("share with a TTL of %v of a lock with %v", a.ttl, root.opts.ttl)
	case lk.l.set.fencing && root.fence == 0:
		return nil, invalid("share with fencing of a lock that was resumed without a fence")
	case a.opts.minHold > 0 || a.opts.stopMargin > 0 || a.opts.progress > 0:
		return nil, invalid("WithMinHold, WithStopMargin and WithProgress cannot be given for a share")
	}
	s := a.newLock(root.Token())
	s.outer, s.opts.ttl, s.fence = &lk.hold, root.opts.ttl, root.fence
	s.lease.Terms.AutoExtend = false // the lock is extended, and the share with it
	now := lk.l.now()
	s.holder.Began = now
	lk.mu.Lock()
	held := lk.lease.Held()
	if held {
		lk.family.add(s)
	}
	lk.mu.Unlock()
	if !held {
		return nil, lk.endError()
	}
	s.markHeld(noDeadline, now)
	if !lk.isHeld() {
		s.end(lk.endCause(), keepKeys) // the lock ended while the share was made
		return nil, lk.endError()
	}
	return s, nil
}

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
	if decided, lost := (attempt{&a.call, lk}).finish(ctx); lost != nil {
		a.failures++
		seen, lost := a.describeHolders(ctx, lk, lost)
		a.l.reporter.attempt(lk.subject(), lost, decided, 0, lk.keys.confirmed)
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
	*call
	lk *Lock
}

// finish waits for the outcome of a submitted attempt, and begins the hold or the undo. It returns the instant of the
// decision. The undo begins also if the caller's context panics.
func (a attempt) finish(ctx context.Context) (decided clock.Instant, err error) {
	held := false
	defer func() {
		if !held {
			a.l.group.NoteEnded(a.lk.args.Token(), false)
			a.lk.startUndo()
		}
	}()
	until := a.lk.keys.acquire.Request.NotAfter
	a.lk.keys.acquire.Wait(ctx.Done())
	now := a.l.now()
	err = a.checkWon(ctx, until, now)
	if err == nil && a.l.set.fencing {
		err = a.resolveFence(ctx, until)
		now = a.l.now()
	}
	if err != nil {
		return now, err
	}
	held = true
	a.l.group.NoteDecided(a.lk.keys.acquire, until, a.lk.fence)
	a.l.waiting.Acquired(&a.lk.holder, &a.waiter) // before markHeld: from there on a timer may end the hold, and Ended must find it
	a.l.reporter.attempt(a.lk.subject(), nil, now, until.Sub(now), a.lk.keys.confirmed)
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

// resolveFence determines the fence of an attempt that a majority granted. If the majority's
// counters differ, the nodes that granted are asked to raise them, each only while it still holds
// our token (docs/dev/rules.md rule 12). The validity is checked again afterwards (docs/dev/hazards.md
// H94).
func (a attempt) resolveFence(ctx context.Context, until clock.Instant) error {
	var few [9]int64
	counted := few[:0]
	a.lk.keys.acquire.View(func(s *vote.Ballots) { counted = s.AppendFences(counted) })
	fence, agreed := quorum.Fence(counted, quorum.Majority(len(counted)))
	a.lk.fence = fence
	if agreed {
		return nil
	}
	a.lk.keys.confirmed = true
	return a.confirm(ctx, until, slices.Clone(counted))
}

// confirm asks the nodes that granted with a smaller count to raise their counters.
func (a attempt) confirm(ctx context.Context, until clock.Instant, counted []int64) error {
	r := a.l.group.New(&noEvents, nil, a.names)
	command.NewConfirm(&r.Request, &a.lk.args, a.lk.fence)
	r.Start = a.l.now()
	r.Request.NotAfter = until
	r.Arm(a.l.set.timeout(a.lk.opts.ttl))
	a.l.group.NoteBegan(r)
	r.Send(func(node int) (command.Reply, bool) {
		switch counted[node] {
		case a.lk.fence:
			return command.Reply{Outcome: command.Granted, NotSent: true}, true
		case 0:
			return command.Reply{Outcome: command.Failed, NotSent: true, Err: errNoGrant}, true
		}
		return command.Reply{}, false
	}).Settle()
	in := r.Wait(ctx.Done())
	err := a.checkWon(ctx, until, a.l.now())
	if !r.Won() && !errors.Is(err, ErrClosed) && (in || err == nil) { // a context may have ended and not say so yet
		return withOp("acquire", votesError(r, confirmReason(r)))
	}
	return err
}

// confirmReason returns ErrTooLate if nodes refused the confirmation: they have lost the key.
func confirmReason(r *vote.Round) error {
	if errors.Is(lossError(r).Reason, ErrHeld) {
		return ErrTooLate
	}
	return ErrNoQuorum
}

// errNoGrant is the error in the votes of nodes that a confirmation does not concern.
var errNoGrant = errors.New("did not grant")
