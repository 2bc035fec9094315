package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/claim"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Claim is a lock without a handle: Detach returns it, and Resume makes a handle of it again.
// A Claim is resumed by one process at a time, and not after its release: if two processes resume
// copies of it, both hold the same lock. It marshals to text, which is a string in JSON. Keep it like a password, because it contains the token, which can release
// the lock. String hides the token, but package fmt calls no methods on unexported fields, and prints a
// Claim in one with its token. A program that can change a claim can change its names, TTL and fence: take
// claims from trusted places only.
type Claim struct {
	Names []string
	Token string
	// Fence is the fencing token, below 2^53, or 0 without fencing. It cannot be read back from the
	// nodes, because their counters may have been raised by the next holder.
	Fence int64
	// TTL is the TTL of the acquisition, in whole milliseconds. Automatic extensions after Resume ask
	// for it.
	TTL time.Duration
}

// String describes the claim without its token.
func (c Claim) String() string {
	return fmt.Sprintf("claim on %s by %s", quoted(c.Names), command.Mask(c.Token))
}

// GoString returns String, so that %#v does not show the token.
func (c Claim) GoString() string { return c.String() }

// LogValue returns String. Otherwise package log/slog would marshal the claim and show the token.
func (c Claim) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText returns a form without spaces, for command lines and environment variables.
func (c Claim) MarshalText() ([]byte, error) { return claim.Claim(c).Text() }

// UnmarshalText parses the form of MarshalText. Its errors match ErrInvalid.
func (c *Claim) UnmarshalText(text []byte) error {
	parsed, err := claim.ParseText(text)
	if err != nil {
		return invalid("%w", err)
	}
	*c = Claim(parsed)
	return nil
}

// Detach ends the handle without a release and returns a claim to the lock. The lock's keys remain
// until their TTL or a Resume. Detach waits for extensions in flight, at most for the node timeout,
// so that none changes the lock after it was resumed elsewhere.
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
	case lk.family.shareOf != nil:
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
	lk.l.registry.remove(lk)
	return Claim{Names: lk.Names(), Token: lk.args.Token(), Fence: lk.fence, TTL: lk.opts.ttl}, nil
}

// Resume makes a handle for a lock that another handle, possibly in another process, gave up by
// Detach. Its validity is what a quorum of nodes still grants. Resume takes at most the node
// timeout. If it returns an error, nothing was changed on the nodes.
//
// Its errors match:
//
//   - ErrLost if the nodes report that the token does not hold the names
//   - ErrNoQuorum if too few nodes answered
//   - ErrQuarantined if too few nodes vote because of quarantines
//   - ErrTooLate if too little validity is left
//   - ErrAlreadyHeld if this Locker has a handle for the claim or is undoing it
//   - ErrInvalid if the claim is invalid or an option is out of bounds
//   - ErrClosed, or the cause of ctx
//
// A claim whose token does not have the form of this library's tokens is invalid. Otherwise a
// forged claim could extend or delete any expiring key whose value is known.
//
// The Locker must have the nodes and the key prefix of the Locker that acquired the lock. The
// options are those of an acquisition, except WithMinHold and WithShared.
func (l *Locker) Resume(ctx context.Context, claim Claim, opts ...LockOption) (*Lock, error) {
	w := &acquisition{l: l, names: slices.Sorted(slices.Values(claim.Names)), ttl: claim.TTL, caller: ctx}
	if err := l.checkClaim(ctx, claim, w, opts); err != nil {
		return nil, err
	}
	lk := w.newLock(claim.Token)
	if lk.fence = claim.Fence; lk.fence != 0 {
		lk.args.SetCounters(l.set.clustered)
	}
	lk.keys.resumed = true
	if err := l.registry.add(lk); err != nil {
		return nil, fmt.Errorf("%w: %v", err, claim)
	}
	if err := lk.resume(ctx); err != nil {
		l.registry.remove(lk)
		return nil, err
	}
	if l.isClosed() { // resumed while Close listed the held locks
		_, _ = lk.Detach()
		return nil, closedError(w.names)
	}
	return lk, nil
}

// maxFenceAhead is how far a claim's fence may be ahead of this machine's clock. Fences are microseconds of Unix time, or
// follow on such a fence. An extension raises the fence counters to the claim's fence: one that was changed to the
// largest number would use them up.
const maxFenceAhead = 366 * 24 * time.Hour

func (l *Locker) checkClaim(ctx context.Context, claim Claim, w *acquisition, opts []LockOption) error {
	if l.isClosed() {
		return closedError(w.names)
	}
	switch {
	case claim.Token == "":
		return invalid("claim without a token")
	case !command.WellFormed(claim.Token), !command.ValidLabel(command.Label(claim.Token)):
		return invalid("claim's token does not have the form of this library's tokens")
	}
	if claim.Fence < 0 || claim.Fence >= maxFence {
		return invalid("claim's fence %d is not between 0 and 2^53-1", claim.Fence)
	}
	if ahead := time.Duration(claim.Fence-l.set.wall()) * time.Microsecond; ahead > maxFenceAhead {
		return invalid("the claim's fence of %d is ahead of this machine's clock by more than %v", claim.Fence, maxFenceAhead)
	}
	if given := gather(nil, opts); given.minHold > 0 || given.shared {
		return invalid("Resume accepts neither WithMinHold nor WithShared")
	}
	w.opts = gather(l.set.lockDefaults, opts)
	w.opts.minHold, w.opts.shared = 0, false // of WithDefaults
	w.parent = heldWithin(ctx)
	return withOp("resume", w.check(ctx))
}

// resume queries the nodes and starts the hold if a quorum still keeps the keys.
func (lk *Lock) resume(ctx context.Context) error {
	r := lk.countedInspect(&claimEvents)
	r.Rule = vote.LossAfterAll
	lk.l.group.NoteBegan(r)
	lk.hold.Began = r.Start
	if err := lk.l.runRound(ctx, r, lk.l.set.timeout(lk.opts.ttl)); err != nil {
		return withOp("resume", err)
	}
	ours, others := lk.supportedUntil(r)
	nodes := len(lk.l.nodes)
	until, ok := quorum.Supported(ours, quorum.Majority(nodes))
	now := lk.l.now()
	switch {
	case quorum.Blocks(nodes, others):
		return withOp("resume", votesError(r, ErrLost))
	case !ok:
		return withOp("resume", faultError(r))
	case lk.insufficient(until.Sub(now)):
		return withOp("resume", votesError(r, ErrTooLate))
	}
	lk.mu.Lock()
	lk.keys.longest = max(lk.keys.longest, lk.l.maxRemaining(r))
	lk.mu.Unlock()
	lk.l.group.NoteDecided(r, until, 0)
	lk.l.waiting.Acquired(&lk.hold, nil)
	lk.markHeld(until, now)
	return nil
}

// maxRemaining returns the longest time to live that a node reported. An earlier handle may have
// extended the keys for longer than the TTL of the claim.
func (l *Locker) maxRemaining(r *vote.Round) (d time.Duration) {
	r.View(func(s *vote.Ballots) {
		for _, states := range s.KeyStates {
			for _, h := range states {
				d = max(d, min(h.TTL, l.set.maxTTL))
			}
		}
	})
	return d
}

// claimEvents are the events of Resume's round; its owner is the Lock. A node grants if the token holds
// the names for long enough. A node that keeps the keys for a shorter time than the others may
// answer first.
var claimEvents = vote.Events{OnReply: func(r *vote.Round, _ int, rep command.Reply) command.Reply {
	if rep.Outcome != command.Granted {
		return rep
	}
	lk := r.Owner.(*Lock)
	until, ours := lk.l.supported(r.Start, lk.args.Token(), rep.KeyStates)
	if left := until.Sub(lk.l.now()); !ours || left <= lk.lease.Terms.StopMargin+time.Millisecond {
		rep.Outcome = command.Refused
	}
	return rep
}}
