package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Names returns a copy of the names that the lock holds, sorted.
func (lk *Lock) Names() []string { return slices.Clone(lk.holder.Names) }

// Token returns the value of the lock's keys. A client that knows it and can reach a quorum of the
// nodes can extend and release the lock: use ID for logs and databases.
func (lk *Lock) Token() string { return lk.args.Token() }

// Fence returns the fencing token, which orders the locks on a name: see WithFencing. It is constant
// during the hold, also across Detach and Resume. It is 0 without WithFencing. See AcceptFence for its
// use by a resource.
func (lk *Lock) Fence() int64 { return lk.fence }

// AcceptFence reports whether a protected resource may accept a request with this fencing token.
// seen and seenOwner are the largest token that the resource has accepted and its owner. The
// resource must check and update them in the transaction of its write. If the write depends on what was read in an earlier
// transaction, it must do so before that read, too. Otherwise the late write of an earlier holder may come between.
//
// A token is accepted if it is larger than seen, or equal and from the same owner. owner is any
// value that distinguishes holders, such as Lock.ID. A plain >= would accept two holders with the
// same token. A token of 0, that of a lock without fencing, is never accepted.
func AcceptFence(seen int64, seenOwner string, fence int64, owner string) bool {
	return fence > 0 && (fence > seen || fence == seen && owner == seenOwner)
}

// Err returns nil while the lock is valid and has not ended its context, and afterwards the reason. It
// matches what context.Cause returns for Lock.Context, and a *LostError is as of now. So after Release
// it matches ErrReleased, whatever Release returned. If the context of the caller of Do has ended, and
// not the lock, it is nil. It needs no network, and is safe for concurrent use.
//
// Join it to the error of work that the end of the lock may have cut short: that error often is no more
// than context.Canceled.
func (lk *Lock) Err() error {
	lk.applyDue()
	cause := lk.contextCause()
	if cause == nil {
		return nil
	}
	return lk.named(cause)
}

// Progress reports that the work is making progress (WithProgress). Without that option it does
// nothing.
func (lk *Lock) Progress() {
	if lk.isShare() {
		lockOf(lk.keeper()).Progress()
		return
	}
	if lk.lease.Terms.Progress == 0 {
		return
	}
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.lease.MadeProgress(now) {
		lk.scheduleLocked()
	}
}

// MarshalJSON returns an object for logs with names, id, fence (omitted without fencing) and
// remaining_ms. Unlike a Claim it cannot be resumed.
func (lk *Lock) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Names     []string `json:"names"`
		ID        string   `json:"id"`
		Fence     int64    `json:"fence,omitempty"`
		Remaining int64    `json:"remaining_ms"`
	}{escaped(lk.holder.Names), lk.ID(), lk.fence, max(0, lk.Remaining()).Milliseconds()})
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
		return &waitError{op: "extend", names: lk.holder.Names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	if !lk.isHeld() {
		return lk.endError()
	}
	if lk.isShare() {
		return unlessEnded(lk, lockOf(lk.keeper()).Extend(ctx, ttl))
	}
	lk.mu.Lock()
	x, unsent := extendLocked(&lk.hold, ttl, false)
	var err error
	if x == nil {
		err = lk.stopReasonLocked()
	}
	lk.mu.Unlock()
	if x != nil {
		unsent.Settle()
		err = x.result(ctx)
	}
	return unlessEnded(lk, err)
}

// unlessEnded returns err, or why the lock has ended meanwhile.
func unlessEnded(lk *Lock, err error) error {
	if !lk.isHeld() {
		return lk.endError()
	}
	return err
}

// Check asks a quorum of nodes whether the lock is still held. It takes one round trip and at
// most the node timeout. Call it before a step that cannot be undone: it finds what no local
// clock can, for example a key that was deleted, or one that expired early because a node's
// clock was set.
//
// Check may shorten the validity to what the nodes still support. It never extends it. The
// nodes' answers are exact to within the round trip.
//
// It returns nil if the lock is held; Remaining then returns for how long. It returns a *LostError if a
// quorum says that the lock is not held, and the lock ends. It returns an error that matches
// ErrNoQuorum, ErrQuarantined or the cause of ctx if too few nodes answered, and the lock is unchanged. After
// Locker.Close has stopped waiting that is ErrClosed.
// If the lock had ended before, Check returns the reason.
func (lk *Lock) Check(ctx context.Context) error {
	if !lk.isHeld() {
		return lk.endError()
	}
	if lk.isShare() {
		return unlessEnded(lk, lockOf(lk.keeper()).Check(ctx))
	}
	s := newSurvey(&lk.hold)
	s.supports = func(keys []command.KeyState) bool {
		// The PTTL was read before now, so the keys may live until this instant:
		latest, ours := lk.supported(lk.l.now(), keys)
		lk.mu.Lock()
		defer lk.mu.Unlock()
		return ours && !latest.Add(time.Millisecond).Before(lk.lease.Ends())
	}
	if err := s.run(ctx); err != nil {
		return withOp("check", err)
	}
	if s.Won() {
		lk.checked(s.Round, noDeadline)
	} else if err := lk.shortenOrEnd(s); err != nil {
		return err
	}
	return unlessEnded(lk, nil)
}

// shortenOrEnd shortens the validity to what the nodes support. If a quorum reports that the token
// does not hold the names, it ends the hold.
func (lk *Lock) shortenOrEnd(s *survey) error {
	until, kept, gone := s.until()
	switch {
	case gone:
		votes := s.votes()
		lk.mu.Lock()
		lk.markLostLocked(votes)
		lk.mu.Unlock()
		end := lk.loss()
		end.asks = false
		end.holder.Store(successorIn(s.Round, lk.args.Token()))
		lk.end(lk.lostBy(end), undoKeys)
	case !kept && errors.Is(lk.contextCause(), ErrClosed):
		return lk.named(ErrClosed) // Close ends what its nodes have not answered
	case !kept:
		return withOp("check", faultError(s.Round))
	default:
		lk.checked(s.Round, until)
	}
	return nil
}

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
	e := ending{lk: lk, cause: ErrReleased, keys: undoKeys, at: lk.l.now()}
	lk.mu.Lock()
	if lk.release.called {
		lk.mu.Unlock()
		lk.release.running.Wait()
		return lk.release.err
	}
	lk.release.called = true
	lk.release.running.Add(1)
	defer lk.release.running.Done()
	ended := !lk.isShare() && !lk.lease.Over(e.at) && e.beginLocked()
	lk.mu.Unlock()
	if ended {
		e.finish()
	} else {
		lk.applyDue()
		for outer := lk.outer; outer != nil; outer = outer.outer {
			if cause := outer.endCause(); cause != nil { // what ends its shares may not have come to this one
				lk.end(cause, keepKeys)
			}
		}
		ended = lk.end(ErrReleased, undoKeys)
	}
	lk.release.err = lk.awaitRelease(ended, e.at)
	return lk.release.err
}

// awaitRelease waits for the result of the first call of Release, and returns it.
func (lk *Lock) awaitRelease(ended bool, began clock.Instant) error {
	switch {
	case !ended:
		return lk.endError()
	case lk.isShare(), lk.opts.asyncRelease: // the lease of a share belongs to the root
		return nil
	}
	lk.keys.undo.Load().Wait(nil)
	err := lk.releaseResult()
	lk.l.reporter.released(lk.subject(), err, began)
	return err
}

// Detach ends the handle without a release and returns a claim to the lock. The lock's keys remain
// until their TTL or a Resume. Detach waits for the decision of extensions in flight, at most for the node
// timeout. A slower node may still lengthen its key after that.
//
// On a handle that has ended, Detach returns the reason. A share, or a lock with WithMinHold,
// cannot be detached (ErrInvalid).
//
// A node that has not answered the acquisition yet may execute it after another process has
// released the lock. The key then blocks that node until its TTL. One Detach leaves at most a
// minority of such nodes, so other clients can still acquire the lock. A release by this Locker
// leaves no such key.
func (lk *Lock) Detach() (Claim, error) {
	switch {
	case lk.isShare():
		return Claim{}, invalid("a share cannot be detached: detach the shared lock")
	case lk.opts.minHold > 0:
		return Claim{}, invalid("a lock with WithMinHold cannot be detached")
	}
	lk.applyDue()
	if !lk.end(ErrDetached, keepKeys) {
		return Claim{}, lk.endError()
	}
	lk.mu.Lock()
	pending := slices.Clone(lk.extending.rounds)
	lk.mu.Unlock()
	if lk.keys.acquire != nil {
		lk.keys.acquire.Cancel() // an unsent acquire must not be executed later
	}
	for _, r := range pending {
		r.Wait(nil)
	}
	lk.l.registry.remove(&lk.hold)
	return Claim{Names: lk.Names(), Token: lk.args.Token(), Fence: lk.fence, TTL: lk.opts.ttl}, nil
}
