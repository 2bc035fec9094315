package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// Release gives the lock back and ends the handle, and the end of ctx does not cut it short, unlike
// Close, because it never waits longer than the node timeout. It sends also when ctx is
// done, and waits for a quorum's answer. It is idempotent: a second call returns what the
// first did and sends nothing.
//
// Three endings are told apart. nil: a quorum released it. ErrLost (a *LostError or
// *QuorumError): it had ended before, so that the work may have overlapped with
// another holder's. ErrNoQuorum: nobody knows; what is left expires by itself
// within QuorumError.Expires, and until then is retried in the background. A handle
// that ended by Detach or WithMaxHold returns ErrDetached or ErrMaxHold. With
// WithAsyncRelease it does not wait, and nil means that the release is on its way.
func (lk *Lock) Release(ctx context.Context) error {
	_ = ctx // its end must not keep the lock from being released (docs/hazards.md H19)
	lk.mu.Lock()
	again := lk.releasing
	lk.releasing = true
	lk.mu.Unlock()
	if again {
		return lk.waitFirst()
	}
	err := lk.releaseOnce()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.released, lk.result = true, err
	if lk.others != nil {
		close(lk.others)
	}
	return err
}

// waitFirst waits for the first Release. It is no sync.Once: whoever waits in one
// keeps the time of a testing/synctest bubble from going on, the user's as ours.
func (lk *Lock) waitFirst() error {
	lk.mu.Lock()
	if lk.released {
		defer lk.mu.Unlock()
		return lk.result
	}
	if lk.others == nil {
		lk.others = make(chan struct{})
	}
	others := lk.others
	lk.mu.Unlock()
	<-others
	return lk.result
}

func (lk *Lock) releaseOnce() error {
	lk.applyDue()
	began := lk.l.traceTime()
	if !lk.end(ErrReleased, undoKeys) {
		return lk.endError()
	}
	if lk.root != nil {
		return nil // the lease is the root's
	}
	var err error
	if !lk.opts.asyncRelease {
		lk.exchange.undo.wait(nil)
		err = lk.releaseResult()
		lk.l.traceReleased(lk, err, began)
	}
	if lk.l.reusesExchanges {
		lk.exchange.unref(lk.l)
	}
	return err
}

// releaseResult reads the votes of the release.
func (lk *Lock) releaseResult() error {
	r := &lk.exchange.undo
	switch {
	case r.won():
		return nil
	case r.refusedByQuorum():
		return withOp("release", r.asError(ErrLost))
	case r.surelyFree():
		return nil
	}
	e := r.asError(ErrNoQuorum)
	e.Expires = lk.longest
	return withOp("release", e)
}

// endError is why a handle that has ended can't do what is asked.
func (lk *Lock) endError() error {
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if errors.Is(lk.cause, ErrLost) {
		return &LostError{Names: lk.names, For: max(0, now.Sub(lk.endedAt))}
	}
	return fmt.Errorf("%w: %s", lk.cause, quoted(lk.names))
}

// What is undone: an attempt that was never a lock, or a hold.
const (
	undoAttempt = false
	undoHold    = true
)

// startUndo undoes on every node whatever this token may have written there, behind
// it in the same order (docs/hazards.md H1, H4). It goes on in the background, whatever
// becomes of the caller's context (H19), until every node has answered or the keys
// have died by their TTL. Nodes that can't hold anything of ours are spared: those
// that refused the acquire, and those that no byte of it was sent to, nor will be.
func (lk *Lock) startUndo(hold bool) { lk.submitUndo(hold, wire.ByCaller) }

// submitUndo is startUndo on a goroutine of either kind.
func (lk *Lock) submitUndo(hold bool, by wire.Submitter) {
	lk.sending.Lock()
	defer lk.sending.Unlock()
	lk.submitUndoLocked(hold, by)
}

// submitUndoLocked is submitUndo under sending.
func (lk *Lock) submitUndoLocked(hold bool, by wire.Submitter) {
	lk.cancelExtensionsLocked()
	if lk.exchange == nil {
		lk.renewExchange()
	}
	r := &lk.exchange.undo
	r.start = lk.l.now()
	h := lk.buildUndo(r, hold)
	var behind *round
	if h.attempt != nil {
		behind = &h.attempt.exchange.acquire
		behind.submittedBy(by)
	}
	r.submittedBy(by)
	r.req.Clock, r.req.NotAfter = lk.l.set.clock, r.start.Add(lk.longest)
	r.req.AcquiredHere = !lk.resumed && lk.repaired == nil
	r.armTimeout(lk.l.set.timeout(lk.longest))
	r.send(lk.skipNode, behind)
	if h.attempt != nil {
		h.waiter.deliverHandoff(h.attempt)
	}
}

// buildUndo fills in how the keys are given back, and returns the attempt that goes right
// behind it: that of whoever is next in this process.
func (lk *Lock) buildUndo(r *round, hold bool) (h handoffPlan) {
	if !hold {
		lk.buildAttemptUndo(r)
		return h
	}
	if left := lk.minHoldLeft(r); left > 0 {
		wire.NewShorten(&r.req, &lk.terms, left, lk.l.set.maxTTL)
		lk.l.waitTable.noteEnded(lk)
		return h
	}
	h = lk.l.waitTable.planHandoff(lk, r.start)
	switch {
	case h.attempt == nil || !h.sameNames: // some of the names are free for others, or the next may fail for the rest of its own
		wire.NewAnnouncingRelease(&r.req, &lk.terms, h.ownSubscribers)
	case h.countWaiters:
		wire.NewCountingRelease(&r.req, &lk.terms, h.ownSubscribers)
	default:
		wire.NewRelease(&r.req, &lk.terms)
	}
	return h
}

// buildAttemptUndo fills in how an attempt is undone that was never a lock. One that lost the
// vote tells nobody: whom it was in the way of tries again by itself, and all of them
// called up at once would split the votes again. But one that others may have
// taken for a holder, and so wait for, is announced, and so is one that was handed a
// lock, whose release was not.
func (lk *Lock) buildAttemptUndo(r *round) {
	if lk.exchange.acquire.lost() && !lk.handedOff {
		wire.NewRelease(&r.req, &lk.terms)
		return
	}
	wire.NewAnnouncingRelease(&r.req, &lk.terms, 0)
}

// minHoldLeft is what remains of the minimum hold, in whole milliseconds.
func (lk *Lock) minHoldLeft(r *round) time.Duration {
	if lk.opts.minHold == 0 {
		return 0
	}
	left := lk.began.Add(lk.opts.minHold).Sub(r.start)
	if left <= 0 {
		return 0
	}
	return max(MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond))
}

// skipNode reports whether a node surely holds nothing of this token, as if it had said
// so, and gives up an acquire that still waits to be sent.
func (lk *Lock) skipNode(node int) (wire.Reply, bool) {
	return wire.Reply{Outcome: wire.Refused, NotSent: true}, lk.surelyEmptyLocked(node)
}

// surelyEmptyLocked is called under sending, so that no repair begins meanwhile.
func (lk *Lock) surelyEmptyLocked(node int) bool {
	r := &lk.exchange.acquire
	switch {
	case lk.repaired != nil && lk.repaired[node]:
		return false
	case len(r.ballots) == 0: // it was answered everywhere long ago, or by another handle's nodes
		return lk.mayHold != nil && !lk.mayHold[node]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &r.ballots[node]
	unsent := b.cmd.Cancel()
	if b.replied {
		return b.leftNothing()
	}
	return unsent
}

// onReply is for rounds that only read: see check.go.
func (lk *Lock) onReply(r *round, rep wire.Reply) wire.Reply {
	switch {
	case r.req.Op == wire.Inspect:
		return lk.voteOnKeys(r, rep)
	case r.req.ReportWaiters:
		if rep.RemoteWaiters {
			lk.remoteWaiters.Store(true)
		}
	}
	return rep
}

// onDecision notes whether any node of the quorum that released it knows of others who wait,
// and tells of a release that nobody waits for.
func (lk *Lock) onDecision(r *round) {
	if !r.req.Op.Undoes() {
		return
	}
	if lk.l.isClosed() {
		lk.armUndoLimit(r)
	}
	if r.req.ReportWaiters {
		lk.l.waitTable.noteRemoteWaiters(lk, lk.remoteWaiters.Load())
	}
	if lk.opts.asyncRelease && lk.wasReleased() {
		lk.l.traceReleased(lk, lk.releaseResult(), r.start)
	}
}

func (lk *Lock) wasReleased() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return errors.Is(lk.cause, ErrReleased)
}

// onComplete takes the lease out of the books when its undo was answered everywhere.
func (lk *Lock) onComplete(r *round) {
	if !r.req.Op.Undoes() {
		return
	}
	lk.l.remove(lk)
	if lk.l.isClosed() {
		lk.l.alarms.Clear(&r.alarm) // of outlast, which looks whether it was forgotten
	}
}
