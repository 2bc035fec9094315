package redlock

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// startUndo deletes on every node what this token may have written, after it in the same order
// (docs/dev/hazards.md H1, H4). The attempt has failed, or the hold has ended, so nothing else is submitted
// any more. The undo continues in the background, independently of the caller's context (H19), until
// every node has answered or the keys have expired. Nodes that cannot hold the token are skipped: those
// that refused the acquire, and those to which it was never sent.
//
// An attempt that lost the vote announces nothing: the contenders that it blocked try again by themselves, and waking
// all of them at once would split the votes again. Other attempts are announced, because waiters may have taken them
// for holders. So is an attempt that was handed off, because its release was not announced.
func (h *hold) startUndo() {
	r := h.l.group.New(&undoEvents, h, h.holder.Names)
	r.Rule = vote.FaultAfterAll // a fault must not hide that the other nodes released the lock
	r.Start = h.l.now()
	r.Request.NotAfter = r.Start.Add(h.keys.longest)
	r.Request.AcquiredHere = !h.keys.resumed && h.keys.repaired == 0
	var next waiting.Handoff
	var alone *command.Request
	switch {
	case h.wasHeld():
		left := h.opts.minHoldLeft(h.holder.Began, r.Start)
		next = h.l.waiting.Releasing(&h.holder, r.Start, left)
		alone = h.fillRelease(&r.Request, &next, left)
	case h.keys.acquire.Lost() && !h.holder.HandedOff:
		command.NewRelease(&r.Request, &h.args)
	default:
		command.NewAnnouncingRelease(&r.Request, &h.args, 0, 0)
	}
	r.Arm(h.l.set.timeout(h.keys.longest))
	h.keys.undo.Store(r)
	r.SendBefore(next.Attempt, alone, func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Refused, NotSent: true}, h.keys.noneOn(node)
	}).Settle()
	next.Deliver()
}

// fillRelease fills in the release of a lock that was held. left remains of its minimum hold. The attempt of next is
// submitted right after it. fillRelease returns the request for a node that does not take that attempt.
func (h *hold) fillRelease(r *command.Request, next *waiting.Handoff, left time.Duration) (alone *command.Request) {
	if left > 0 {
		command.NewShorten(r, &h.args, left, h.l.set.maxTTL)
		r.Announces(next.OwnSubscribers, next.Age)
		return nil
	}
	// Some names are free for other processes, or the next attempt may fail for its other names.
	if next.Attempt == nil || !next.SameNames {
		command.NewAnnouncingRelease(r, &h.args, next.OwnSubscribers, next.Age)
		if next.Attempt != nil {
			r.SendAlone() // in front of the attempt
		}
		return nil
	}
	announcing := *r
	command.NewAnnouncingRelease(&announcing, &h.args, next.OwnSubscribers, next.Age)
	if next.CountWaiters {
		command.NewCountingRelease(r, &h.args, next.OwnSubscribers)
	} else {
		command.NewRelease(r, &h.args)
	}
	return &announcing
}

// undoEvents are the events of an undo; its owner is the hold.
var undoEvents = vote.Events{
	OnReply: func(r *vote.Round, _ int, rep command.Reply) command.Reply {
		if rep.Outcome == command.Granted && rep.Others != command.NoOthers && r.Request.ReportWaiters {
			r.Owner.(*hold).keys.others.Or(uint32(rep.Others))
		}
		return rep
	},
	OnDecision: func(r *vote.Round) { r.Owner.(*hold).onUndoDecided(r) },
	OnComplete: func(r *vote.Round) { // every node has answered
		h := r.Owner.(*hold)
		if !h.wasHeld() { // the acquisition may have won: then its timer is set
			h.l.timers.Clear(&h.timer)
		}
		h.l.registry.remove(h)
	},
}

// onUndoDecided passes on whether a node of the deciding quorum reported that others wait. It also
// reports an asynchronous release.
func (h *hold) onUndoDecided(r *vote.Round) {
	if h.l.isClosed() {
		h.l.registry.wake() // from now on Close waits for a limited time
	}
	if r.Request.ReportWaiters {
		others := min(h.keys.others.Load(), uint32(command.OthersWait))
		h.l.waiting.NoteOthers(&h.holder, h.lease.Ends(), command.Others(others)) //nolint:gosec // bounded
	}
	if h.opts.asyncRelease && errors.Is(h.cause, ErrReleased) {
		h.l.reporter.released(h.subject(), h.releaseResult(), r.Start)
	}
}

// releaseResult returns the result of the release by its votes.
func (h *hold) releaseResult() error {
	r := h.keys.undo.Load()
	if r.Won() {
		return nil
	}
	var gone, free bool
	r.View(func(s *vote.Ballots) { gone, free = s.RefusedByQuorum(), s.SurelyFree() })
	switch {
	case gone:
		end := h.endBy(lease.Gone)
		end.votes = votesError(r, nil).Votes
		return h.lostBy(end)
	case free:
		return nil
	}
	e := votesError(r, ErrNoQuorum)
	e.Expires = h.keys.longest
	return withOp("release", e)
}
