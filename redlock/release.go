package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// Release releases the lock and ends the handle. It waits for the answers of a quorum, at most for
// the node timeout. The end of ctx neither stops nor shortens it. Release is idempotent: a second
// call sends nothing and returns the result of the first.
//
// It returns nil if a quorum released the lock. It returns a *LostError, which matches ErrLost, if the
// lock had ended before, so the work may have overlapped with another holder's. It returns an error
// that matches ErrNoQuorum if the outcome is unknown. The release is then retried in the background,
// and leftover keys expire within QuorumError.Expires.
//
// If the handle ended by Detach or WithMaxHold, the error matches ErrDetached or ErrMaxHold. With
// WithAsyncRelease it does not wait, and nil reports that the release was submitted.
func (lk *Lock) Release(ctx context.Context) error {
	_ = ctx // the end of ctx must not prevent the release (docs/dev/hazards.md H19)
	now := lk.l.now()
	lk.mu.Lock()
	again, over := lk.release.called, lk.lease.Over(now)
	if !again {
		lk.release.called = true
		lk.release.running.Add(1)
	}
	lk.mu.Unlock()
	if again {
		lk.release.running.Wait()
		return lk.release.err
	}
	defer lk.release.running.Done()
	if over || lk.family.shareOf != nil {
		lk.applyDue()
	}
	lk.release.err = lk.releaseOnce()
	return lk.release.err
}

// releaseCall is the state of the first call of Release.
type releaseCall struct {
	called  bool           // guarded by Lock.mu
	running sync.WaitGroup // not sync.Once: to block there stops the time of a testing/synctest bubble
	err     error          // its result; readable when it is not running any more
}

func (lk *Lock) releaseOnce() error {
	began := lk.l.traceTime()
	if !lk.end(ErrReleased, undoKeys) {
		return lk.endError()
	}
	if lk.family.shareOf != nil {
		return nil // the lease belongs to the root
	}
	if lk.opts.asyncRelease {
		return nil
	}
	lk.keys.undo.Load().Wait(nil)
	err := lk.releaseResult()
	lk.l.traceReleased(lk, err, began)
	return err
}

// releaseResult returns the result of the release by its votes.
func (lk *Lock) releaseResult() error {
	r := lk.keys.undo.Load()
	if r.Won() {
		return nil
	}
	var gone, free bool
	r.View(func(s *vote.Ballots) { gone, free = s.RefusedByQuorum(), s.SurelyFree() })
	switch {
	case gone:
		end := lk.endBy(lease.Gone)
		end.votes = votesError(r, nil).Votes
		return lk.lostBy(end)
	case free:
		return nil
	}
	e := votesError(r, ErrNoQuorum)
	e.Expires = lk.keys.longest
	return withOp("release", e)
}

// endError returns why a handle has ended, as the error of a later call.
func (lk *Lock) endError() error {
	lk.mu.Lock()
	cause := lk.cause
	lk.mu.Unlock()
	return lk.named(cause)
}

// writtenKeys records what the commands of a lock's token did, or may have done, on the nodes.
type writtenKeys struct {
	// While the lock is held Lock.mu guards these four; before and after that they are constant. acquire is
	// the acquisition. It is nil after Resume, for a share, and for a lock that dropped it (see
	// dropAcquireLocked).
	acquire  *vote.Round
	empty    quorum.Nodes  // nodes that hold no keys of it, once acquire is nil
	repaired quorum.Nodes  // nodes that a repair was sent to
	longest  time.Duration // longest TTL that any command set

	undo      atomic.Pointer[vote.Round] // the release, or another undo; nil before that, constant afterwards
	others    atomic.Uint32              // each command.Others that a node reported at the release, as a bit
	resumed   bool                       // another handle acquired the lock
	confirmed bool                       // the fence took a second round trip
}

// startUndo deletes on every node what this token may have written, after it in the same order
// (docs/dev/hazards.md H1, H4). The attempt has failed, or the hold has ended, so nothing else is submitted
// any more. The undo continues in the background, independently of the caller's context (H19), until
// every node has answered or the keys have expired. Nodes that cannot hold the token are skipped: those
// that refused the acquire, and those to which it was never sent.
func (lk *Lock) startUndo() {
	r := lk.l.group.New(&undoEvents, lk, lk.hold.Names)
	r.Rule = vote.FaultAfterAll // a fault must not hide that the other nodes released the lock
	r.Start = lk.l.now()
	r.Request.NotAfter = r.Start.Add(lk.keys.longest)
	r.Request.AcquiredHere = !lk.keys.resumed && lk.keys.repaired == 0
	h, alone := lk.buildUndo(r)
	r.Arm(lk.l.set.timeout(lk.keys.longest))
	lk.keys.undo.Store(r)
	r.SendBefore(h.Attempt, alone, lk.skipNode).Settle()
	h.Deliver()
}

// undoEnded submits the undo of a lock that the library ended because its time was over or a
// quorum refused it. Its context has ended before. Until then the lock stays registered, so that
// Close waits for it and Resume rejects its token.
func (lk *Lock) undoEnded() {
	lk.startUndo()
	lk.askSuccessor()
}

// buildUndo fills in the undo's request. It returns the plan of the handoff, whose attempt is submitted right
// after the undo, and the request for a node that does not take that attempt.
func (lk *Lock) buildUndo(r *vote.Round) (h waiting.Handoff, alone *command.Request) {
	if !lk.wasHeld() {
		lk.buildAttemptUndo(r)
		return h, nil
	}
	left := lk.minHoldLeft(r)
	h = lk.l.waiting.Releasing(&lk.hold, r.Start, left)
	if left > 0 {
		command.NewShorten(&r.Request, &lk.args, left, lk.l.set.maxTTL)
		r.Request.Announces(h.OwnSubscribers, h.Age)
		return h, nil
	}
	// Some names are free for other processes, or the next attempt may fail for its other names.
	if h.Attempt == nil || !h.SameNames {
		command.NewAnnouncingRelease(&r.Request, &lk.args, h.OwnSubscribers, h.Age)
		if h.Attempt != nil {
			r.Request.SendAlone() // in front of the attempt
		}
		return h, nil
	}
	announcing := r.Request
	command.NewAnnouncingRelease(&announcing, &lk.args, h.OwnSubscribers, h.Age)
	if h.CountWaiters {
		command.NewCountingRelease(&r.Request, &lk.args, h.OwnSubscribers)
	} else {
		command.NewRelease(&r.Request, &lk.args)
	}
	return h, &announcing
}

// buildAttemptUndo fills in the undo of an attempt that never became a lock. An attempt that lost
// the vote announces nothing: the contenders that it blocked try again by themselves, and waking
// all of them at once would split the votes again. Other attempts are announced, because waiters
// may have taken them for holders. So is an attempt that was handed off, because its release was
// not announced.
func (lk *Lock) buildAttemptUndo(r *vote.Round) {
	if lk.keys.acquire.Lost() && !lk.hold.HandedOff {
		command.NewRelease(&r.Request, &lk.args)
		return
	}
	command.NewAnnouncingRelease(&r.Request, &lk.args, 0, 0)
}

// minHoldLeft returns what remains of the minimum hold, rounded up to whole milliseconds.
func (lk *Lock) minHoldLeft(r *vote.Round) time.Duration {
	if lk.opts.minHold == 0 {
		return 0
	}
	left := lk.hold.Began.Add(lk.opts.minHold).Sub(r.Start)
	if left <= 0 {
		return 0
	}
	return max(MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond))
}

// skipNode reports whether a node surely holds nothing of this token, with the answer to record for it. It
// cancels an unsent acquire.
func (lk *Lock) skipNode(node int) (command.Reply, bool) {
	return command.Reply{Outcome: command.Refused, NotSent: true}, lk.surelyEmpty(node)
}

// surelyEmpty reports whether a node holds nothing of this token.
func (lk *Lock) surelyEmpty(node int) bool {
	switch {
	case lk.keys.repaired.Has(node):
		return false
	case lk.keys.acquire == nil: // all nodes answered it during the hold, or another handle acquired the lock
		return lk.keys.empty.Has(node)
	}
	return lk.keys.acquire.LeftNothing(node)
}

// undoEvents are the events of an undo; its owner is the Lock.
var undoEvents = vote.Events{
	OnReply: func(r *vote.Round, _ int, rep command.Reply) command.Reply {
		if rep.Outcome == command.Granted && rep.Others != command.NoOthers && r.Request.ReportWaiters {
			r.Owner.(*Lock).keys.others.Or(uint32(rep.Others))
		}
		return rep
	},
	OnDecision: func(r *vote.Round) { r.Owner.(*Lock).onUndoDecided(r) },
	OnComplete: func(r *vote.Round) { // every node has answered
		lk := r.Owner.(*Lock)
		lk.l.registry.remove(lk)
	},
}

// onUndoDecided passes on whether a node of the deciding quorum reported that others wait. It also
// reports an asynchronous release.
func (lk *Lock) onUndoDecided(r *vote.Round) {
	if lk.l.isClosed() {
		lk.l.registry.wake() // from now on Close waits for a limited time
	}
	if r.Request.ReportWaiters {
		others := min(lk.keys.others.Load(), uint32(command.OthersWait))
		lk.l.waiting.NoteOthers(&lk.hold, lk.lease.Ends(), command.Others(others)) //nolint:gosec // bounded
	}
	if lk.opts.asyncRelease && lk.wasReleased() {
		lk.l.traceReleased(lk, lk.releaseResult(), r.Start)
	}
}

func (lk *Lock) wasReleased() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return errors.Is(lk.cause, ErrReleased)
}
