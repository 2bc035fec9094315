package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
)

// extension is an extension of a lock that is under way.
type extension struct {
	round     *vote.Round
	hold      *hold
	auto      bool          // WithAutoExtend asked for it, and not Lock.Extend
	refused   atomic.Uint64 // the quorum.Nodes that answered that the token does not hold the names
	failed    atomic.Bool   // a node failed, or did not answer
	effective bool          // it took effect; readable once applied is closed
	troubled  bool          // the lock had trouble at the decision
	applied   chan struct{} // closed when the decision was applied; nil for automatic extensions
}

// extendLocked submits an extension, or returns nil if the lock cannot be extended. The release, which comes later,
// looks for it in extending.rounds. The caller settles what was not sent.
func extendLocked(h *hold, ttl time.Duration, auto bool) (*extension, vote.Unsent) {
	now := h.l.now()
	if !h.lease.Extendable(now) {
		return nil, nil
	}
	h.keys.dropAcquire()
	x := &extension{hold: h, auto: auto}
	if !auto {
		x.applied = make(chan struct{})
	}
	r := h.l.group.New(&extendEvents, x, h.holder.Names)
	x.round, r.Start = r, now
	h.extending.begin(r)
	h.lease.Asked(now)
	h.keys.longest = max(h.keys.longest, ttl)
	command.NewExtend(&r.Request, &h.args, ttl, h.l.set.maxTTL, h.fence)
	// It is never sent after the validity is over (docs/dev/hazards.md H12).
	r.Request.NotAfter = h.lease.Ends()
	r.Arm(h.l.set.timeout(ttl))
	h.l.group.NoteBegan(r)
	return x, r.Send(nil)
}

// result waits until the outcome was applied to the lock.
func (x *extension) result(ctx context.Context) error {
	select {
	case <-x.applied:
	case <-ctx.Done():
		if !x.round.Decided() {
			return &waitError{op: "extend", names: x.hold.holder.Names, cause: context.Cause(ctx), last: votesError(x.round, ErrNoQuorum)}
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
	h, now := x.hold, x.hold.l.now()
	h.mu.Lock()
	gone, lost := !h.lease.Held(), !h.lease.Valid(now)
	ended, stopped := h.stopped != nil, h.stopReasonLocked()
	h.mu.Unlock()
	switch {
	case gone:
		return h.endError()
	case lost:
		return h.lostBy(h.loss())
	case x.round.Won() || ended:
		return stopped
	}
	return votesError(x.round, ErrNoQuorum)
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
		x.hold.unregister(r)
		x.noteMissing()
		x.noteCopies()
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
		if quorum.Blocks(len(x.hold.l.nodes), refused.Len()) {
			x.markLost()
		}
	default:
		x.failed.Store(true)
	}
}

// markLost marks the hold as lost, unless a later extension was confirmed: a repair may have created the keys in between.
// The timer ends it.
func (x *extension) markLost() {
	votes := x.votes()
	x.hold.mu.Lock()
	defer x.hold.mu.Unlock()
	if x.hold.lease.Confirmed().After(x.round.Start) {
		return
	}
	x.hold.markLostLocked(votes)
	x.hold.scheduleLocked()
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

// onDecision extends the validity. A hold that has ended stays ended: late votes do not revive it
// (docs/dev/hazards.md H114).
func (x *extension) onDecision() {
	h, r := x.hold, x.round
	won := r.Won()
	until := quorum.Until(r.Start, r.Request.TTL, h.l.set.drift)
	h.mu.Lock()
	now := h.l.now() // read under mu: no goroutine has seen a later time and ended the hold
	x.effective = won && h.lease.Extended(r.Start, until, now)
	switch {
	case x.effective:
		h.l.group.NoteDecided(r, until, 0)
		h.extending.confirmed()
	case !won && h.lease.Valid(now):
		h.extending.inTrouble().votes = x.votes()
		if x.auto {
			h.lease.ExtendFailed(now)
		}
	}
	x.troubled = h.extending.trouble != nil
	early := !won && h.lease.Remaining(now) < r.Request.TTL/2
	h.scheduleLocked()
	h.mu.Unlock()
	if early { // the lock may end before the nodes that are silent have failed
		x.noteCopies()
	}
	if d := h.l.reporter; d != nil && d.hooks.Extended != nil {
		d.extended(h.subject(), RoundEvent{Auto: x.auto, Err: x.failure(), Took: now.Sub(r.Start), Validity: max(0, h.remaining(h.l.now()))})
	}
	if x.applied != nil {
		close(x.applied)
	}
}

// noteMissing records the nodes on which an extension found no keys of ours, for repair. It is
// called after all nodes have answered and the decision was applied.
func (x *extension) noteMissing() {
	h := x.hold
	missing := quorum.Nodes(x.refused.Load())
	if missing == 0 || !h.l.set.repair {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.effective {
		h.lease.Missing(missing, h.l.now())
		h.scheduleLocked()
	}
}

// noteCopies records for the log which nodes support the lock, once all have answered an extension, and before that if
// no quorum has confirmed it in time and half of the validity is over. If all have granted it, that takes four reads.
func (x *extension) noteCopies() {
	h := x.hold
	log := h.l.holdLog
	if log == nil || x.refused.Load() == 0 && !x.failed.Load() && !x.troubled && log.Silent() == 0 {
		return
	}
	var granted, refused, failed quorum.Nodes
	why := make([]error, len(h.l.nodes))
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
	h.mu.Lock()
	if !h.lease.Valid(h.l.now()) { // its end has a line of its own
		h.mu.Unlock()
		return
	}
	h.keys.dropAcquire() // which knows the empty nodes
	had := h.extending.copies()
	has := report.Copies{
		Lacking: had.Lacking&^granted | refused&^h.keys.empty,
		Failing: had.Failing&^(granted|refused) | failed,
	}
	if has != had {
		h.extending.inTrouble().copies = has
	}
	h.mu.Unlock()
	log.Changed(had, has, granted|refused, why)
}

// repairLocked creates the keys again on nodes that lost them. It is no vote, but those nodes can grant
// the next extension. Because it creates keys, it is not sent after the validity ends, and it is
// undone on every node that it was sent to, in order (docs/dev/rules.md rule 9). The caller settles
// what was not sent.
func repairLocked(h *hold) vote.Unsent {
	r := h.l.group.New(&repairEvents, h, h.holder.Names)
	r.Rule, r.Start = vote.AfterAll, h.l.now() // Detach waits for the answers of all nodes
	missing := h.lease.TakeMissing(r.Start)
	if missing == 0 {
		return nil
	}
	h.keys.repaired |= missing
	h.extending.begin(r)
	command.NewRepair(&r.Request, &h.args, h.opts.ttl, h.l.set.maxTTL, h.fence)
	r.Request.NotAfter = h.lease.Ends()
	r.Arm(h.l.set.timeout(h.opts.ttl))
	h.l.group.NoteBegan(r)
	return r.Send(func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Failed, NotSent: true}, !missing.Has(node)
	})
}

// repairEvents are the events of a repair; its owner is the hold.
var repairEvents = vote.Events{OnComplete: func(r *vote.Round) { r.Owner.(*hold).unregister(r) }}
