package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Who asks for an extension.
const (
	byCaller      = false
	autoExtension = true
)

// extension is a round that lengthens a lock.
type extension struct {
	round
	lock       *Lock
	auto       bool
	notOurs    atomic.Int32  // nodes that say "not yours"
	effective  bool          // it took effect; readable once booked is closed
	eventsSeen atomic.Int32  // of the decision and the last answer, by goroutines of their own
	applied    chan struct{} // closed when the lock has been told the decision; nil when nobody waits for that
	owner      extensionObserver
	few        [3]ballot
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
		return &waitError{op: "extend", names: lk.names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	if lk.root != nil {
		return lk.root.Extend(ctx, ttl)
	}
	lk.sending.Lock()
	x, err := lk.startExtend(ttl, byCaller)
	if err == nil {
		err = x.result(ctx)
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	return err
}

// result waits for the outcome, not merely for the decision: when it returns the
// lock has been told.
func (x *extension) result(ctx context.Context) error {
	select {
	case <-x.applied:
	case <-ctx.Done():
		if !x.decided.Load() {
			return &waitError{op: "extend", names: x.names, cause: context.Cause(ctx), last: x.asError(ErrNoQuorum)}
		}
		<-x.applied
	}
	return x.failure()
}

// failure is why an extension that was decided has no effect; nil when it has.
func (x *extension) failure() error {
	if x.effective {
		return nil
	}
	k, now := x.lock, x.l.now()
	k.mu.Lock()
	gone := k.phase == ended
	lost := k.lost || !now.Before(k.endNowLocked())
	stopped := k.stopReasonLocked()
	k.mu.Unlock()
	switch {
	case gone:
		return k.endError()
	case lost:
		return x.asError(ErrLost)
	case x.won():
		return stopped
	}
	return x.asError(ErrNoQuorum)
}

// startExtend submits an extension. The token's sending lock keeps it in front of
// the release, which also looks for it in inFlight. Called under that lock, which it unlocks.
func (lk *Lock) startExtend(ttl time.Duration, auto bool) (*extension, error) {
	defer lk.sending.Unlock()
	x := &extension{lock: lk, auto: auto}
	if !auto {
		x.applied = make(chan struct{})
	}
	x.names, x.owner = lk.names, extensionObserver{lk, x}
	x.start = lk.l.now()
	old, err := lk.startable(x, ttl)
	if err != nil {
		return nil, err
	}
	wire.NewExtend(&x.req, &lk.terms, ttl, lk.l.set.maxTTL, lk.fence)
	x.req.Clock, x.req.NotAfter = lk.l.set.clock, old // never sent once the validity is over (docs/hazards.md H12)
	ballots := x.few[:]
	if n := len(lk.l.nodes); n <= len(ballots) {
		ballots = ballots[:n]
	} else {
		ballots = make([]ballot, n)
	}
	x.prepare(lk.l, &x.owner, ballots)
	for i := range x.ballots {
		x.ballots[i].cmd.To = x
	}
	if auto {
		x.submittedBy(wire.ByLibrary)
	}
	x.sendAll(lk.l.set.timeout(ttl), nil)
	return x, nil
}

// errOver refuses an extension of a hold that is over by the clock. Here the sending
// lock is held: whoever asked for it settles the lock and says why.
var errOver = fmt.Errorf("%w: it had ended", ErrLost)

// startable books an extension that begins, and returns the end of the validity so far.
func (lk *Lock) startable(x *extension, ttl time.Duration) (old clock.Instant, err error) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	switch {
	case lk.phase != held || lk.lost || !x.start.Before(lk.endNowLocked()):
		return 0, errOver
	case lk.extensionStopped:
		return 0, lk.stopReasonLocked()
	}
	lk.registerLocked(&x.round)
	if x.auto {
		lk.l.extendLimiter.acquire()
	}
	lk.extendQueued = false
	lk.longest = max(lk.longest, ttl)
	return lk.endNowLocked(), nil
}

// registerLocked books a round about a held lock, which Detach waits for. Called under mu.
func (lk *Lock) registerLocked(r *round) {
	lk.inFlight = append(lk.inFlight, r)
	lk.inFlightWG.Add(1)
}

// unregister forgets the round: nothing of it is under way.
func (lk *Lock) unregister(r *round) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.inFlight = slices.DeleteFunc(lk.inFlight, func(u *round) bool { return u == r }); len(lk.inFlight) == 0 {
		lk.inFlight = nil
	}
}

// stopReasonLocked is why a lock is not extended any more though it is held. Called under mu.
func (lk *Lock) stopReasonLocked() error {
	cause := lk.ctxCause
	if cause == nil {
		cause = lk.endCauseLocked() // its context ends right now
	}
	return fmt.Errorf("%w: %s: its context has ended, and nothing extends it any more", cause, quoted(lk.names))
}

// Answer looks at each refusal, also one that comes after the decision: when so many
// nodes say "not yours" that no majority can say otherwise the lock is lost now,
// whatever is still to come from others. So it is before anybody hears of a decision.
func (x *extension) Answer(c *wire.Command, rep wire.Reply) {
	spare := len(x.ballots) - quorum.Majority(len(x.ballots))
	if rep.Outcome == wire.Refused && int(x.notOurs.Add(1)) > spare {
		x.lock.markLost()
	}
	x.round.Answer(c, rep)
}

// markLost marks a hold of which a quorum says that it is not ours. The alarms end it:
// this may be under the sending lock.
func (lk *Lock) markLost() {
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.phase == held && !lk.lost {
		lk.lost, lk.endedAt = true, min(now, lk.endNowLocked())
		lk.l.alarms.Set(&lk.alarm, now, time.Second, (*leaseTimer)(lk))
	}
}

// extensionObserver is told of an extension's course.
type extensionObserver struct {
	lock *Lock
	x    *extension
}

func (o *extensionObserver) onReply(_ *round, rep wire.Reply) wire.Reply { return rep }

// onDecision moves the end of the validity. What has ended stays ended: late votes
// revive nothing (docs/hazards.md H114).
func (o *extensionObserver) onDecision(r *round) {
	k, x := o.lock, o.x
	defer k.inFlightWG.Done()
	won := r.won()
	until := quorum.Until(r.start, r.req.TTL, k.l.set.drift)
	k.mu.Lock()
	now := k.l.now() // under mu: nobody has seen a later time and taken the hold for over
	switch {
	case k.phase != held || k.lost || k.extensionStopped || !now.Before(k.endNowLocked()):
	case won:
		x.effective = true
		k.lastExtended = now
		k.until = max(k.until, until)
		k.nextExtendAt = k.nextExtensionLocked(r.start)
		k.scheduleLocked()
	case x.auto:
		k.nextExtendAt = k.nextRetryLocked(now)
		k.scheduleLocked()
	}
	k.mu.Unlock()
	if x.auto {
		k.l.extendLimiter.release()
	}
	k.l.traceExtended(k, x, now)
	if x.applied != nil {
		close(x.applied)
	}
	o.onBoth()
}

func (o *extensionObserver) onComplete(r *round) {
	o.lock.unregister(r)
	o.onBoth()
}

// onBoth books what is to be repaired, by whoever comes second: the last answer may come
// while another one's goroutine is still booking the decision.
func (o *extensionObserver) onBoth() {
	if o.x.eventsSeen.Add(1) == 2 {
		o.lock.noteMissing(o.x)
	}
}

// cancelExtensionsLocked gives up what of extensions and repairs still waits to be sent; the rest is in
// front of whatever is submitted next. Called under sending, after the hold ended.
func (lk *Lock) cancelExtensionsLocked() {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	for _, r := range lk.inFlight {
		r.cancel()
	}
}
