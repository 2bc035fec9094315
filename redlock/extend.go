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
	lock     *Lock
	auto     bool
	disowned atomic.Int32  // nodes that say "not yours"
	took     bool          // it took effect; readable once booked is closed
	told     atomic.Int32  // of the decision and the last answer, by goroutines of their own
	booked   chan struct{} // closed when the lock has been told the decision; nil when nobody waits for that
	owner    extensionOwner
	few      [3]ballot
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
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := k.l.set.checkTTL("TTL", ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &waitError{op: "extend", names: k.names, cause: context.Cause(ctx), last: errNotTried}
	}
	if !k.live() {
		return k.endError()
	}
	if k.root != nil {
		return k.root.Extend(ctx, ttl)
	}
	k.sending.Lock()
	x, err := k.startExtend(ttl, byCaller)
	if err == nil {
		err = x.result(ctx)
	}
	if !k.live() {
		return k.endError()
	}
	return err
}

// result waits for the outcome, not merely for the decision: when it returns the
// lock has been told.
func (x *extension) result(ctx context.Context) error {
	select {
	case <-x.booked:
	case <-ctx.Done():
		if !x.decided.Load() {
			return &waitError{op: "extend", names: x.names, cause: context.Cause(ctx), last: x.fail(ErrNoQuorum)}
		}
		<-x.booked
	}
	return x.failure()
}

// failure is why an extension that was decided has no effect; nil when it has.
func (x *extension) failure() error {
	if x.took {
		return nil
	}
	k, now := x.lock, x.l.now()
	k.mu.Lock()
	gone := k.phase == ended
	lost := k.lost || !now.Before(k.end())
	stopped := k.stopped()
	k.mu.Unlock()
	switch {
	case gone:
		return k.endError()
	case lost:
		return x.fail(ErrLost)
	case x.won():
		return stopped
	}
	return x.fail(ErrNoQuorum)
}

// startExtend submits an extension. The token's sending lock keeps it in front of
// the release, which also looks for it in underWay. Called under that lock, which it unlocks.
func (k *Lock) startExtend(ttl time.Duration, auto bool) (*extension, error) {
	defer k.sending.Unlock()
	x := &extension{lock: k, auto: auto}
	if !auto {
		x.booked = make(chan struct{})
	}
	x.names, x.owner = k.names, extensionOwner{k, x}
	x.start = k.l.now()
	old, err := k.admit(x, ttl)
	if err != nil {
		return nil, err
	}
	wire.NewExtend(&x.req, &k.terms, ttl, k.l.set.maxTTL, k.fence)
	x.req.Clock, x.req.NotAfter = k.l.set.clock, old // never sent once the validity is over (docs/hazards.md H12)
	ballots := x.few[:]
	if n := len(k.l.nodes); n <= len(ballots) {
		ballots = ballots[:n]
	} else {
		ballots = make([]ballot, n)
	}
	x.prepare(k.l, &x.owner, ballots)
	for i := range x.ballots {
		x.ballots[i].cmd.To = x
	}
	if auto {
		x.submittedBy(wire.ByLibrary)
	}
	x.ask(k.l.set.timeout(ttl), nil)
	return x, nil
}

// errOver refuses an extension of a hold that is over by the clock. Here the sending
// lock is held: whoever asked for it settles the lock and says why.
var errOver = fmt.Errorf("%w: it had ended", ErrLost)

// admit books an extension that begins, and returns the end of the validity so far.
func (k *Lock) admit(x *extension, ttl time.Duration) (old clock.Instant, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase != held || k.lost || !x.start.Before(k.end()):
		return 0, errOver
	case k.noExtend:
		return 0, k.stopped()
	}
	k.begin(&x.round)
	if x.auto {
		k.l.turns.begin()
	}
	k.waits = false
	k.longest = max(k.longest, ttl)
	return k.end(), nil
}

// begin books a round about a held lock, which Detach waits for. Called under mu.
func (k *Lock) begin(r *round) {
	k.underWay = append(k.underWay, r)
	k.joined.Add(1)
}

// over forgets the round: nothing of it is under way.
func (k *Lock) over(r *round) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.underWay = slices.DeleteFunc(k.underWay, func(u *round) bool { return u == r }); len(k.underWay) == 0 {
		k.underWay = nil
	}
}

// stopped is why a lock is not extended any more though it is held. Called under mu.
func (k *Lock) stopped() error {
	cause := k.ctxCause
	if cause == nil {
		cause = k.endCause() // its context ends right now
	}
	return fmt.Errorf("%w: %s: its context has ended, and nothing extends it any more", cause, quoteAll(k.names))
}

// Answer looks at each refusal, also one that comes after the decision: when so many
// nodes say "not yours" that no majority can say otherwise the lock is lost now,
// whatever is still to come from others. So it is before anybody hears of a decision.
func (x *extension) Answer(c *wire.Command, rep wire.Reply) {
	spare := len(x.ballots) - quorum.Majority(len(x.ballots))
	if rep.Outcome == wire.Refused && int(x.disowned.Add(1)) > spare {
		x.lock.lose()
	}
	x.round.Answer(c, rep)
}

// lose marks a hold of which a quorum says that it is not ours. The alarms end it:
// this may be under the sending lock.
func (k *Lock) lose() {
	now := k.l.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase == held && !k.lost {
		k.lost, k.endedAt = true, min(now, k.end())
		k.l.alarms.Set(&k.alarm, now, time.Second, (*ringer)(k))
	}
}

// extensionOwner is told of an extension's course.
type extensionOwner struct {
	lock *Lock
	x    *extension
}

func (o *extensionOwner) judge(_ *round, rep wire.Reply) wire.Reply { return rep }

// decided moves the end of the validity. What has ended stays ended: late votes
// revive nothing (docs/hazards.md H114).
func (o *extensionOwner) decided(r *round) {
	k, x := o.lock, o.x
	defer k.joined.Done()
	won := r.won()
	until := quorum.Until(r.start, r.req.TTL, k.l.set.drift)
	k.mu.Lock()
	now := k.l.now() // under mu: nobody has seen a later time and taken the hold for over
	switch {
	case k.phase != held || k.lost || k.noExtend || !now.Before(k.end()):
	case won:
		x.took = true
		k.extended = now
		k.until = max(k.until, until)
		k.nextTry = k.regularTry(r.start)
		k.arm()
	case x.auto:
		k.nextTry = k.retry(now)
		k.arm()
	}
	k.mu.Unlock()
	if x.auto {
		k.l.turns.end()
	}
	k.l.traceExtended(k, x, now)
	if x.booked != nil {
		close(x.booked)
	}
	o.both()
}

func (o *extensionOwner) finished(r *round) {
	o.lock.over(r)
	o.both()
}

// both books what is to be repaired, by whoever comes second: the last answer may come
// while another one's goroutine is still booking the decision.
func (o *extensionOwner) both() {
	if o.x.told.Add(1) == 2 {
		o.lock.missed(o.x)
	}
}

// cancelExtensions gives up what of extensions and repairs still waits to be sent; the rest is in
// front of whatever is submitted next. Called under sending, after the hold ended.
func (k *Lock) cancelExtensions() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.underWay {
		r.cancel()
	}
}
