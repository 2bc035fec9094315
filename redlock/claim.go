package redlock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Claim is a lock without a handle: Detach returns it, and Resume makes a handle of it again.
// Use a Claim once: if two processes resume copies of it, both hold the same lock. It marshals
// to text and to JSON. Keep it like a password, because it contains the token, which can release
// the lock. String hides the token.
type Claim struct {
	Names []string `json:"names"`
	Token string   `json:"token"`
	// Fence is the fencing token, below 2^53, or 0 without fencing. It can't be read back
	// from the nodes: what their counters say may be the next holder's.
	Fence uint64 `json:"fence,omitempty"`
	// TTL is what the lock was acquired with; auto-extension after Resume asks for it. In
	// JSON it is a number of nanoseconds.
	TTL time.Duration `json:"ttl"`
}

// String names the claim without its token.
func (c Claim) String() string {
	return fmt.Sprintf("claim on %s by %s", quoted(c.Names), wire.Mask(c.Token))
}

// GoString is String, so that %#v shows no token either.
func (c Claim) GoString() string { return c.String() }

// LogValue is String, so that package log/slog, which would marshal it, shows no token.
func (c Claim) LogValue() slog.Value { return slog.StringValue(c.String()) }

// claimPrefix tells the text form's version.
const claimPrefix = "redlock1."

// claimText is what the text form holds, in JSON: names are any bytes, which a JSON
// string can't carry.
type claimText struct {
	Names [][]byte      `json:"n"`
	Token []byte        `json:"t"`
	Fence uint64        `json:"f,omitempty"`
	TTL   time.Duration `json:"d"`
}

// MarshalText gives a form without spaces, for command lines and environment variables.
func (c Claim) MarshalText() ([]byte, error) {
	t := claimText{Token: []byte(c.Token), Fence: c.Fence, TTL: c.TTL}
	for _, n := range c.Names {
		t.Names = append(t.Names, []byte(n))
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return append([]byte(claimPrefix), base64.RawURLEncoding.EncodeToString(b)...), nil
}

// UnmarshalText reads what MarshalText gave. It matches ErrInvalid when it can't.
func (c *Claim) UnmarshalText(text []byte) error {
	b, ok := cutPrefix(text, claimPrefix)
	if !ok {
		return invalid("a claim begins with %q", claimPrefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(b))
	if err != nil {
		return invalid("the claim is damaged")
	}
	var t claimText
	if err := json.Unmarshal(raw, &t); err != nil {
		return invalid("the claim is damaged")
	}
	*c = Claim{Token: string(t.Token), Fence: t.Fence, TTL: t.TTL}
	for _, n := range t.Names {
		c.Names = append(c.Names, string(n))
	}
	return nil
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return nil, false
	}
	return b[len(prefix):], true
}

// MarshalJSON gives an object, not the text form. It matches ErrInvalid for a name that
// is no UTF-8, which JSON would change: MarshalText takes any.
func (c Claim) MarshalJSON() ([]byte, error) {
	for _, s := range append([]string{c.Token}, c.Names...) {
		if !utf8.ValidString(s) {
			return nil, invalid("JSON can't carry a claim on a name that is not UTF-8; its text form can")
		}
	}
	type plain Claim
	return json.Marshal(plain(c))
}

// UnmarshalJSON reads what MarshalJSON gave.
func (c *Claim) UnmarshalJSON(b []byte) error {
	type plain Claim
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return invalid("the claim is damaged")
	}
	*c = Claim(p)
	return nil
}

// Detach ends the handle without a release and returns the claim to its lock, which
// lives on until its TTL or a Resume. It waits for extensions under way, at most
// for the node timeout, so that none acts on the lock in its next holder's hands. Of a
// handle that has ended it returns why; a share and a lock with WithMinHold can't be
// detached (ErrInvalid).
//
// A node that has not answered the acquisition yet may execute it later, behind a release
// by another process. The key then blocks that node until its TTL. One Detach leaves at most
// a minority of such nodes, so that others get the lock all the same. A release in this
// Locker leaves nothing.
func (lk *Lock) Detach() (Claim, error) {
	switch {
	case lk.root != nil:
		return Claim{}, invalid("a share can't be detached, only the lock that it is a share of")
	case lk.opts.minHold > 0:
		return Claim{}, invalid("a lock with WithMinHold can't be detached")
	}
	lk.applyDue()
	if !lk.end(ErrDetached, keepKeys) {
		return Claim{}, lk.endError()
	}
	lk.sending.Lock()
	lk.cancelExtensionsLocked()
	if lk.exchange != nil {
		lk.exchange.acquire.cancel() // one still unsent would come as a ghost
	}
	lk.sending.Unlock()
	lk.inFlightWG.Wait()
	lk.l.remove(lk)
	return Claim{Names: lk.Names(), Token: lk.terms.Token, Fence: lk.fence, TTL: lk.ttl}, nil
}

// Resume makes a handle for a lock that another handle, perhaps in another process,
// gave up by Detach. Its validity counts from what a quorum of nodes still grants it:
// ErrLost when they say that the token does not hold the names (any more),
// ErrNoQuorum when too few answer, ErrTooLate when nothing is left, ErrAlreadyHeld
// when this Locker has a handle for it or is undoing it, ErrInvalid for a claim that is
// none or options out of bounds, ErrClosed, or the cause of ctx. With an error nothing was
// changed on the nodes. It takes no longer than the node timeout.
//
// A claim whose token does not have the form of this library's tokens is refused (ErrInvalid):
// otherwise a forged claim could extend or delete any key with an expiry whose value is known.
//
// The Locker needs the nodes and the key prefix of the one that acquired the lock. Options
// are those of an acquisition; WithMinHold and WithShared can't be given.
func (l *Locker) Resume(ctx context.Context, claim Claim, opts ...LockOption) (*Lock, error) {
	w := request{names: slices.Sorted(slices.Values(claim.Names)), ttl: claim.TTL}
	if err := l.checkClaim(ctx, claim, &w, opts); err != nil {
		return nil, err
	}
	k := l.newLock(ctx, &w)
	k.terms.Set(l.keys(k.names), claim.Token)
	if k.fence = claim.Fence; k.fence != 0 {
		k.terms.SetCounters(l.clustered)
	}
	k.exchange.acquire.ballots = nil // others acquired it: a release goes to all nodes
	k.resumed = true
	if err := l.add(k); err != nil {
		return nil, fmt.Errorf("%w: %v", err, claim)
	}
	if err := k.resume(ctx); err != nil {
		l.remove(k)
		return nil, err
	}
	if l.isClosed() { // resumed while Close listed the held ones
		_, _ = k.Detach()
		return nil, ErrClosed
	}
	return k, nil
}

// maxFenceAhead is how far a claim's fence may be ahead of this machine's clock. Fences are microseconds of Unix time, or
// follow on such a fence. An extension raises the fence counters to the claim's fence: one that was changed to the
// largest number would use them up.
const maxFenceAhead = 366 * 24 * time.Hour

func (l *Locker) checkClaim(ctx context.Context, claim Claim, w *request, opts []LockOption) error {
	if l.isClosed() {
		return ErrClosed
	}
	switch {
	case claim.Token == "":
		return invalid("the claim has no token")
	case !wire.WellFormed(claim.Token), !isLabel(wire.Label(claim.Token)):
		return invalid("the claim's token is not one that this library makes")
	}
	if claim.Fence >= maxFence {
		return invalid("the claim's fence of %d is not below 2^53", claim.Fence)
	}
	if ahead := time.Duration(int64(claim.Fence)-l.set.wall()) * time.Microsecond; ahead > maxFenceAhead { //nolint:gosec // below 2^53
		return invalid("the claim's fence of %d is ahead of this machine's clock by more than %v", claim.Fence, maxFenceAhead)
	}
	if err := l.check(ctx, w, opts); err != nil {
		return withOp("resume", err)
	}
	if w.opts.minHold > 0 || w.opts.shared {
		return invalid("Resume takes neither WithMinHold nor WithShared")
	}
	w.parent = lockOf(ctx)
	return nil
}

// resume reads how long a quorum keeps the keys.
func (lk *Lock) resume(ctx context.Context) error {
	r := lk.l.countedInspect(&claimObserver{lk}, lk.names)
	r.rule, r.start = lossAfterAll, lk.l.now()
	lk.began = r.start
	if err := r.run(ctx, lk.l.set.timeout(lk.ttl)); err != nil {
		return withOp("resume", err)
	}
	ours, others := lk.supportedUntil(r)
	need := quorum.Majority(len(lk.l.nodes))
	until, ok := quorum.Supported(ours, need)
	now := lk.l.now()
	switch {
	case others > len(lk.l.nodes)-need:
		return withOp("resume", r.asError(ErrLost))
	case !ok:
		return withOp("resume", r.asFaultError())
	case lk.insufficient(until.Sub(now)):
		return withOp("resume", r.asError(ErrTooLate))
	}
	lk.mu.Lock()
	lk.longest = max(lk.longest, r.maxRemaining())
	lk.mu.Unlock()
	lk.l.waitTable.noteAcquired(lk)
	lk.markHeld(until, now)
	return nil
}

// maxRemaining is how long a key lives that an earlier handle extended, as far as the
// nodes have answered.
func (r *round) maxRemaining() (d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots {
		for _, h := range r.keyStates[i] {
			d = max(d, min(h.TTL, r.l.set.maxTTL))
		}
	}
	return d
}

// claimObserver votes on whether a token holds the names, and long enough: a node that
// keeps them for less than the others may answer first.
type claimObserver struct{ lock *Lock }

func (o *claimObserver) onReply(r *round, rep wire.Reply) wire.Reply {
	k := o.lock
	until, ours := k.l.supported(r.start, k.terms.Token, rep.KeyStates)
	if left := until.Sub(k.l.now()); !ours || left <= time.Millisecond || left < k.opts.minValidity+time.Millisecond {
		rep.Outcome = wire.Refused
	}
	return rep
}

func (o *claimObserver) onDecision(*round) {}
func (o *claimObserver) onComplete(*round) {}
