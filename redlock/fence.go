package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// maxFence bounds fencing tokens: Redis' scripts count in doubles, which hold whole
// numbers up to here exactly. Microseconds reach it in the year 2255.
const maxFence = 1 << 53

// AcceptFence says whether a protected resource may let a request with this fencing
// token through, and is what the resource should check in the same transaction as its
// write, with the largest token it has let through and whose it was: larger, or equal
// and from the same owner. Owner is whatever tells holders apart, such as Lock.ID; a
// plain >= would let two holders with one number pass (docs/hazards.md H93).
func AcceptFence(seen uint64, seenOwner string, fence uint64, owner string) bool {
	return fence > seen || fence == seen && owner == seenOwner
}

// WithFencing gives every lock a fencing token: Lock.Fence. It costs nothing but a
// longer script as long as the nodes count alike, which the time in their counters makes
// the usual case, and one more round trip otherwise.
//
// The tokens of a name increase strictly where the nodes' counters are durable
// (appendfsync always), or where the restart guard is on and the nodes' clocks differ by
// less than its maxTTL less 2 s (or less a half of it, if that is more); elsewhere they
// do so as long as no node forgets. Clients' clocks do not matter.
func WithFencing() Option { return option(func(s *settings) { s.fencing = true }) }

// Fence is the fencing token: larger than that of every lock on any of the names that
// was acquired before. It never changes during the hold, also across Detach and Resume.
// 0 without WithFencing. AcceptFence is what a resource does with it.
func (lk *Lock) Fence() uint64 { return lk.fence }

// hint is this machine's time as the nodes take it, in microseconds.
func (s *settings) hint() int64 { return min(max(s.wall(), 1), maxFence-1) }

// clamp is how far from its own time a node believes a hint. Two nodes' counters are
// apart by the difference of their clocks and twice this at most.
func (s *settings) clamp() time.Duration { return min(time.Second, s.maxTTL/4) }

// fenced prepares an acquisition's terms and request.
func (lk *Lock) fenced(r *wire.Request) {
	lk.terms.SetCounters(lk.l.clustered)
	wire.NewFencedAcquire(r, &lk.terms, lk.ttl, lk.l.set.maxTTL, lk.l.set.hint(), lk.l.set.clamp())
}

// resolveFence finds the number of an attempt that a majority granted. Where the
// majority did not count up to the same, those that granted are asked to raise their
// counters, each only while it still holds our token (docs/rules.md rule 12). The validity
// is looked at again afterwards (docs/hazards.md H94).
func (lk *Lock) resolveFence(ctx context.Context, until clock.Instant) error {
	var few [9]uint64
	counted := lk.exchange.acquire.mayCountFence(few[:0])
	fence, agreed := quorum.Fence(counted, quorum.Majority(len(counted)))
	lk.fence = fence
	if agreed {
		return nil
	}
	lk.confirmed = true
	return lk.confirm(ctx, until, slices.Clone(counted))
}

// confirm has the counters raised, of those that granted and counted less.
func (lk *Lock) confirm(ctx context.Context, until clock.Instant, counted []uint64) error {
	r := lk.l.newRound(nil, lk.names)
	wire.NewConfirm(&r.req, &lk.terms, lk.fence)
	r.start = lk.l.now()
	r.req.Clock, r.req.NotAfter = lk.l.set.clock, until
	r.sendAll(lk.l.set.timeout(lk.ttl), func(node int) (wire.Reply, bool) {
		switch counted[node] {
		case lk.fence:
			return wire.Reply{Outcome: wire.Granted, NotSent: true}, true
		case 0:
			return wire.Reply{Outcome: wire.Failed, NotSent: true, Err: errNoGrant}, true
		}
		return wire.Reply{}, false
	})
	in := r.wait(ctx.Done())
	if in && !r.won() {
		return withOp("acquire", r.asError(confirmReason(r)))
	}
	return lk.checkWon(ctx, true, until, lk.l.now())
}

// errNoGrant stands in the votes of a confirmation for nodes that it does not concern.
var errNoGrant = errors.New("had not granted")

// confirmReason: a node that says no to a confirmation has lost the key meanwhile.
func confirmReason(r *round) error {
	if errors.Is(r.asLossError().Reason, ErrHeld) {
		return ErrTooLate
	}
	return ErrNoQuorum
}

// mayCountFence appends what the nodes that granted in time counted up to, by node.
func (r *round) mayCountFence(list []uint64) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots {
		b, c := &r.ballots[i], uint64(0)
		if b.voted && !b.late && b.outcome == wire.Granted {
			c = b.fence
		}
		list = append(list, c)
	}
	return list
}
