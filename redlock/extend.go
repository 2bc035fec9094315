package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
)

// extending is the state of the requests about a held lock: extensions and repairs.
type extending struct {
	rounds  []*vote.Round // those that some node has not answered; Detach waits for them
	trouble *trouble      // nil while all nodes grant extensions
}

// trouble is what extensions show that not all nodes granted.
type trouble struct {
	votes  []Vote        // that show a loss, or those to the last extension that no quorum confirmed in time
	copies report.Copies // the nodes that do not support the lock
}

// extension is an extension of a lock that is under way.
type extension struct {
	round     *vote.Round
	lock      *Lock
	auto      bool          // WithAutoExtend asked for it, and not Lock.Extend
	refused   atomic.Uint64 // the quorum.Nodes that answered that the token does not hold the names
	failed    atomic.Bool   // a node failed, or did not answer
	effective bool          // it took effect; readable once applied is closed
	troubled  bool          // the lock had trouble at the decision
	applied   chan struct{} // closed when the decision was applied; nil for automatic extensions
}

// Extend asks the nodes to keep the lock for ttl from now. If a quorum confirms before the
// current validity ends, the validity is extended. Extend never shortens it. On the nodes
// it never creates a key that is gone, and never shortens a key's TTL. ttl has the same
// bounds as in Acquire (ErrInvalid).
//
// If Extend fails, the lock stays valid until its current end, unless the error matches
// ErrLost: a quorum said that the lock is not held, or the validity had ended. ErrNoQuorum
// means that the caller may try again. After the stop margin has begun (WithStopMargin), or
// Locker.Close has stopped waiting, the error is the cause of the lock's context, although
// Remaining may be above 0. If ctx ends first, the error matches its cause, and the extension
// may still take effect. If the lock had ended before, Extend returns the reason. A share
// extends the lock that it shares.
func (lk *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := lk.l.set.checkTTL("TTL", ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &waitError{op: "extend", names: lk.hold.Names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	if lk.family.shareOf != nil {
		return lk.root().Extend(ctx, ttl)
	}
	lk.mu.Lock()
	x, unsent, err := lk.extendLocked(ttl, false)
	lk.mu.Unlock()
	unsent.Settle()
	if err == nil {
		err = x.result(ctx)
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	return err
}

// result waits until the outcome was applied to the lock.
func (x *extension) result(ctx context.Context) error {
	select {
	case <-x.applied:
	case <-ctx.Done():
		if !x.round.Decided() {
			return &waitError{op: "extend", names: x.lock.hold.Names, cause: context.Cause(ctx), last: votesError(x.round, ErrNoQuorum)}
		}
		<-x.applied
	}
	return x.failure()
}

// failure returns why a decided extension had no effect, or nil if it had.
func (x *extension) failure() error {
	if x.effective {
		return nil
	}
	lk, now := x.lock, x.lock.l.now()
	lk.mu.Lock()
	gone, lost := !lk.lease.Held(), !lk.lease.Valid(now)
	ended, stopped := lk.ctx.cause != nil, lk.stopReasonLocked()
	lk.mu.Unlock()
	switch {
	case gone:
		return lk.endError()
	case lost:
		return lk.lostBy(lk.loss())
	case x.round.Won() || ended:
		return stopped
	}
	return votesError(x.round, ErrNoQuorum)
}

// extendLocked submits an extension, unless the lock cannot be extended. The release, which comes later,
// looks for it in extending.rounds. The caller settles what was not sent.
func (lk *Lock) extendLocked(ttl time.Duration, auto bool) (*extension, vote.Unsent, error) {
	now := lk.l.now()
	switch {
	case !lk.lease.Valid(now):
		return nil, nil, errOver
	case lk.lease.Stopped():
		return nil, nil, lk.stopReasonLocked()
	}
	lk.dropAcquireLocked()
	x := &extension{lock: lk, auto: auto}
	if !auto {
		x.applied = make(chan struct{})
	}
	r := lk.l.group.New(&extendEvents, x, lk.hold.Names)
	x.round, r.Start = r, now
	lk.extending.rounds = append(lk.extending.rounds, r)
	lk.lease.Asked(now)
	lk.keys.longest = max(lk.keys.longest, ttl)
	command.NewExtend(&r.Request, &lk.args, ttl, lk.l.set.maxTTL, lk.fence)
	// It is never sent after the validity is over (docs/dev/hazards.md H12).
	r.Request.NotAfter = lk.lease.Ends()
	r.Arm(lk.l.set.timeout(ttl))
	lk.l.group.NoteBegan(r)
	return x, r.Send(nil), nil
}

// errOver rejects an extension of a hold whose time is over. The caller calls applyDue and returns the
// cause.
var errOver = fmt.Errorf("%w: validity is over", ErrLost)

// troubleLocked returns what is known of trouble, to be changed.
func (lk *Lock) troubleLocked() *trouble {
	if lk.extending.trouble == nil {
		lk.extending.trouble = &trouble{}
	}
	return lk.extending.trouble
}

// copiesLocked returns which nodes do not support the lock.
func (lk *Lock) copiesLocked() report.Copies {
	if t := lk.extending.trouble; t != nil {
		return t.copies
	}
	return report.Copies{}
}

// lossVotesLocked returns the votes of the trouble, or else those to an extension that is under way.
func (lk *Lock) lossVotesLocked() []Vote {
	if t := lk.extending.trouble; t != nil && t.votes != nil {
		return t.votes
	}
	for _, r := range lk.extending.rounds {
		if x, ok := r.Owner.(*extension); ok && !r.Won() {
			return x.votes()
		}
	}
	return nil
}

// unregister removes a round that is complete.
func (lk *Lock) unregister(r *vote.Round) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.extending.rounds = slices.DeleteFunc(lk.extending.rounds, func(u *vote.Round) bool { return u == r }); len(lk.extending.rounds) == 0 {
		lk.extending.rounds = nil
	}
}

// stopReasonLocked returns why a held lock is no longer extended.
func (lk *Lock) stopReasonLocked() error {
	cause := lk.ctx.cause
	switch {
	case cause != nil:
	case lk.lease.EndsByMaxHold(): // its context is about to end
		cause = ErrMaxHold
	default:
		cause = ErrLost
	}
	return fmt.Errorf("%w; no extension after the end of its context", lk.named(cause))
}

// extendEvents are the events of an extension's round; its owner is the extension.
var extendEvents = vote.Events{
	OnReply: func(r *vote.Round, node int, rep command.Reply) command.Reply {
		r.Owner.(*extension).onReply(node, rep)
		return rep
	},
	OnDecision: func(r *vote.Round) { r.Owner.(*extension).onDecision() },
	OnComplete: func(r *vote.Round) {
		x := r.Owner.(*extension)
		x.lock.unregister(r)
		x.lock.noteMissing(x)
		x.lock.noteCopies(x)
	},
}

// onReply counts refusals, also after the decision. If no majority can hold the lock any more, the
// lock is lost now, whatever other nodes answer. It is marked as lost before the decision is
// reported.
func (x *extension) onReply(node int, rep command.Reply) {
	switch rep.Outcome {
	case command.Granted:
	case command.Refused:
		refused := quorum.Nodes(x.refused.Or(1 << node)).With(node)
		if quorum.Blocks(len(x.lock.l.nodes), refused.Len()) {
			x.lock.markLost(x.votes())
		}
	default:
		x.failed.Store(true)
	}
}

// votes returns the answers so far. Some of the refusals may not have been counted yet.
func (x *extension) votes() []Vote {
	refused, votes := quorum.Nodes(x.refused.Load()), votesError(x.round, nil).Votes
	for i := range votes {
		if refused.Has(i) {
			votes[i].Outcome, votes[i].Err = OutcomeRefused, nil
		}
	}
	return votes
}

// markLost marks a hold as lost because a quorum refused its token, as the votes show. The timers end
// it.
func (lk *Lock) markLost(votes []Vote) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.markLostLocked(votes)
	lk.scheduleLocked()
}

// markLostLocked is markLost without the timer.
func (lk *Lock) markLostLocked(votes []Vote) {
	if lk.lease.MarkLost(lk.l.now()) {
		lk.troubleLocked().votes = votes
	}
}

// onDecision extends the validity. A hold that has ended stays ended: late votes do not revive it
// (docs/dev/hazards.md H114).
func (x *extension) onDecision() {
	lk, r := x.lock, x.round
	won := r.Won()
	until := quorum.Until(r.Start, r.Request.TTL, lk.l.set.drift)
	lk.mu.Lock()
	now := lk.l.now() // read under mu: no goroutine has seen a later time and ended the hold
	x.effective = won && lk.lease.Extended(r.Start, until, now)
	switch {
	case x.effective:
		lk.l.group.NoteDecided(r, until, 0)
		if lk.copiesLocked() == (report.Copies{}) {
			lk.extending.trouble = nil
		}
	case lk.lease.Valid(now):
		lk.troubleLocked().votes = x.votes()
		if x.auto {
			lk.lease.ExtendFailed(now)
		}
	}
	x.troubled = lk.extending.trouble != nil
	early := !won && lk.lease.Remaining(now) < r.Request.TTL/2
	lk.scheduleLocked()
	lk.mu.Unlock()
	if early { // the lock may end before the nodes that are silent have failed
		lk.noteCopies(x)
	}
	lk.l.traceExtended(lk, x, now)
	if x.applied != nil {
		close(x.applied)
	}
}

// cancelExtensionsLocked cancels the unsent commands of extensions and repairs. Sent commands
// precede any that is submitted later. The hold has ended.
func (lk *Lock) cancelExtensionsLocked() {
	for _, r := range lk.extending.rounds {
		r.Cancel()
	}
}

// noteCopies records for the log which nodes support the lock, once all have answered an extension, and before that if
// no quorum has confirmed it in time and half of the validity is over. If all have granted it, that takes four reads.
func (lk *Lock) noteCopies(x *extension) {
	log := lk.l.holdLog
	if log == nil || x.refused.Load() == 0 && !x.failed.Load() && !x.troubled && log.Silent() == 0 {
		return
	}
	var granted, refused, failed quorum.Nodes
	why := make([]error, len(lk.l.nodes))
	x.round.View(func(s *vote.Ballots) {
		for i := range s.ByNode {
			switch b := &s.ByNode[i]; {
			case !b.Counted: // it may answer in time
			case b.Last == command.Granted:
				granted = granted.With(i)
			case b.Last == command.Refused:
				refused = refused.With(i)
			case errors.Is(b.Err, command.ErrGivenUp), errors.Is(b.Err, pool.ErrClosed): // by this process
			default:
				failed, why[i] = failed.With(i), b.Err
			}
		}
	})
	lk.mu.Lock()
	if !lk.lease.Valid(lk.l.now()) { // its end has a line of its own
		lk.mu.Unlock()
		return
	}
	lk.dropAcquireLocked() // which knows the empty nodes
	had := lk.copiesLocked()
	has := report.Copies{
		Lacking: had.Lacking&^granted | refused&^lk.keys.empty,
		Failing: had.Failing&^(granted|refused) | failed,
	}
	if has != had {
		lk.troubleLocked().copies = has
	}
	lk.mu.Unlock()
	log.Changed(had, has, granted|refused, why)
}
