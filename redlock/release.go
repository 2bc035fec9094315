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
func (k *Lock) Release(ctx context.Context) error {
	_ = ctx // its end must not keep the lock from being released (docs/hazards.md H19)
	k.mu.Lock()
	again := k.releasing
	k.releasing = true
	k.mu.Unlock()
	if again {
		return k.firstResult()
	}
	err := k.giveBack()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released, k.result = true, err
	if k.others != nil {
		close(k.others)
	}
	return err
}

// firstResult waits for the first Release. It is no sync.Once: whoever waits in one
// keeps the time of a testing/synctest bubble from going on, the user's as ours.
func (k *Lock) firstResult() error {
	k.mu.Lock()
	if k.released {
		defer k.mu.Unlock()
		return k.result
	}
	if k.others == nil {
		k.others = make(chan struct{})
	}
	others := k.others
	k.mu.Unlock()
	<-others
	return k.result
}

func (k *Lock) giveBack() error {
	k.settle()
	began := k.l.traceTime()
	if !k.finish(ErrReleased, undoKeys) {
		return k.endError()
	}
	if k.root != nil {
		return nil // the lease is the root's
	}
	var err error
	if !k.opts.asyncRelease {
		k.talk.undo.wait(nil)
		err = k.releaseResult()
		k.l.traceReleased(k, err, began)
	}
	if k.l.recycles {
		k.talk.letGo(k.l)
	}
	return err
}

// releaseResult reads the votes of the release.
func (k *Lock) releaseResult() error {
	r := &k.talk.undo
	switch {
	case r.won():
		return nil
	case r.refusedByQuorum():
		return calledAs("release", r.fail(ErrLost))
	case r.cleared():
		return nil
	}
	e := r.fail(ErrNoQuorum)
	e.Expires = k.longest
	return calledAs("release", e)
}

// endError is why a handle that has ended can't do what is asked.
func (k *Lock) endError() error {
	now := k.l.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(k.cause, ErrLost) {
		return &LostError{Names: k.names, For: max(0, now.Sub(k.endedAt))}
	}
	return fmt.Errorf("%w: %s", k.cause, quoteAll(k.names))
}

// What is undone: an attempt that was never a lock, or a hold.
const (
	undoAttempt = false
	undoHold    = true
)

// takeBack undoes on every node whatever this token may have written there, behind
// it in the same order (docs/hazards.md H1, H4). It goes on in the background, whatever
// becomes of the caller's context (H19), until every node has answered or the keys
// have died by their TTL. Nodes that can't hold anything of ours are spared: those
// that refused the acquire, and those that no byte of it was sent to, nor will be.
func (k *Lock) takeBack(hold bool) { k.submitUndo(hold, wire.ByCaller) }

// submitUndo is takeBack on a goroutine of either kind.
func (k *Lock) submitUndo(hold bool, by wire.Submitter) {
	k.sending.Lock()
	defer k.sending.Unlock()
	k.submitUndoLocked(hold, by)
}

// submitUndoLocked is submitUndo under sending.
func (k *Lock) submitUndoLocked(hold bool, by wire.Submitter) {
	k.cancelExtensions()
	if k.talk == nil {
		k.renewTalk()
	}
	r := &k.talk.undo
	r.start = k.l.now()
	h := k.release(r, hold)
	var behind *round
	if h.next != nil {
		behind = &h.next.talk.acquire
		behind.submittedBy(by)
	}
	r.submittedBy(by)
	r.req.Clock, r.req.NotAfter = k.l.set.clock, r.start.Add(k.longest)
	r.req.AcquiredHere = !k.resumed && k.repaired == nil
	r.open(k.l.set.timeout(k.longest))
	r.submit(k.spared, behind)
	if h.next != nil {
		h.to.launchedAs(h.next)
	}
}

// release fills in how the keys are given back, and returns the attempt that goes right
// behind it: that of whoever is next in this process.
func (k *Lock) release(r *round, hold bool) (h handing) {
	if !hold {
		k.withdraw(r)
		return h
	}
	if left := k.minHoldLeft(r); left > 0 {
		wire.NewShorten(&r.req, &k.terms, left, k.l.set.maxTTL)
		k.l.waiters.left(k)
		return h
	}
	h = k.l.waiters.handOver(k, r.start)
	switch {
	case h.next == nil || !h.all: // some of the names are free for others, or the next may fail for the rest of its own
		wire.NewAnnouncingRelease(&r.req, &k.terms, h.own)
	case h.pass:
		wire.NewCountingRelease(&r.req, &k.terms, h.own)
	default:
		wire.NewRelease(&r.req, &k.terms)
	}
	return h
}

// withdraw fills in how an attempt is undone that was never a lock. One that lost the
// vote tells nobody: whom it was in the way of tries again by itself, and all of them
// called up at once would split the votes again. But one that others may have
// taken for a holder, and so wait for, is announced, and so is one that was handed a
// lock, whose release was not.
func (k *Lock) withdraw(r *round) {
	if k.talk.acquire.lost() && !k.passedOn {
		wire.NewRelease(&r.req, &k.terms)
		return
	}
	wire.NewAnnouncingRelease(&r.req, &k.terms, 0)
}

// minHoldLeft is what remains of the minimum hold, in whole milliseconds.
func (k *Lock) minHoldLeft(r *round) time.Duration {
	if k.opts.minHold == 0 {
		return 0
	}
	left := k.began.Add(k.opts.minHold).Sub(r.start)
	if left <= 0 {
		return 0
	}
	return max(MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond))
}

// spared reports whether a node surely holds nothing of this token, as if it had said
// so, and gives up an acquire that still waits to be sent.
func (k *Lock) spared(node int) (wire.Reply, bool) {
	return wire.Reply{Outcome: wire.Refused, NotSent: true}, k.holdsNothing(node)
}

// holdsNothing is called under sending, so that no repair begins meanwhile.
func (k *Lock) holdsNothing(node int) bool {
	r := &k.talk.acquire
	switch {
	case k.repaired != nil && k.repaired[node]:
		return false
	case len(r.ballots) == 0: // it was answered everywhere long ago, or by another handle's nodes
		return k.holding != nil && !k.holding[node]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &r.ballots[node]
	unsent := b.cmd.Cancel()
	if b.replied {
		return b.clean()
	}
	return unsent
}

// judge is for rounds that only read: see check.go.
func (k *Lock) judge(r *round, rep wire.Reply) wire.Reply {
	switch {
	case r.req.Op == wire.Inspect:
		return k.judgeHold(r, rep)
	case r.req.ReportWaiters:
		if rep.RemoteWaiters {
			k.othersWait.Store(true)
		}
	}
	return rep
}

// decided notes whether any node of the quorum that released it knows of others who wait,
// and tells of a release that nobody waits for.
func (k *Lock) decided(r *round) {
	if !r.req.Op.Undoes() {
		return
	}
	if k.l.isClosed() {
		k.outlast(r)
	}
	if r.req.ReportWaiters {
		k.l.waiters.counted(k, k.othersWait.Load())
	}
	if k.opts.asyncRelease && k.wasReleased() {
		k.l.traceReleased(k, k.releaseResult(), r.start)
	}
}

func (k *Lock) wasReleased() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Is(k.cause, ErrReleased)
}

// finished takes the lease out of the books when its undo was answered everywhere.
func (k *Lock) finished(r *round) {
	if !r.req.Op.Undoes() {
		return
	}
	k.l.forget(k)
	if k.l.isClosed() {
		k.l.alarms.Clear(&r.alarm) // of outlast, which looks whether it was forgotten
	}
}
