package redlock

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// maxFence bounds fencing tokens. Redis scripts count in doubles, which represent whole numbers
// exactly up to this bound. Microseconds since 1970 reach it in the year 2255.
const maxFence = 1 << 53

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

// WithFencing gives every lock a fencing token: see Lock.Fence. If the nodes' counters agree, it
// costs only a longer script. Otherwise it costs one more round trip. The counters contain the
// time, so they usually agree.
//
// Locks with a name in common have different tokens. A token is larger than that of every lock that
// was acquired before any node executed this one's acquire. This holds if the nodes' counters are
// durable (appendfsync always), whatever happens to the locks, unless a node's clock is set forward
// by a week. It also holds with the restart guard, while all that exclusion assumes there holds, no
// Admit skipped a wait, a name is granted less than once a microsecond, no node's clock is set back,
// and the nodes' clocks differ by less than maxTTL less 2.001 s. Below a maxTTL of 4 s the bound is
// half of maxTTL, less 1 ms. Otherwise it holds as long as no node forgets its counters.
func WithFencing() Option { return option(func(s *settings) { s.fencing = true }) }

// resolveFence determines the fence of an attempt that a majority granted. If the majority's
// counters differ, the nodes that granted are asked to raise them, each only while it still holds
// our token (docs/dev/rules.md rule 12). The validity is checked again afterwards (docs/dev/hazards.md
// H94).
func (a attempt) resolveFence(ctx context.Context, until clock.Instant) error {
	var few [9]int64
	counted := few[:0]
	a.lk.keys.acquire.View(func(s *vote.Ballots) { counted = s.AppendFences(counted) })
	fence, agreed := quorum.Fence(counted, quorum.Majority(len(counted)))
	a.lk.fence = fence
	if agreed {
		return nil
	}
	a.lk.keys.confirmed = true
	return a.confirm(ctx, until, slices.Clone(counted))
}

// confirm asks the nodes that granted with a smaller count to raise their counters.
func (a attempt) confirm(ctx context.Context, until clock.Instant, counted []int64) error {
	r := a.l.group.New(&noEvents, nil, a.names)
	command.NewConfirm(&r.Request, &a.lk.args, a.lk.fence)
	r.Start = a.l.now()
	r.Request.NotAfter = until
	r.Arm(a.l.set.timeout(a.lk.opts.ttl))
	a.l.group.NoteBegan(r)
	r.Send(func(node int) (command.Reply, bool) {
		switch counted[node] {
		case a.lk.fence:
			return command.Reply{Outcome: command.Granted, NotSent: true}, true
		case 0:
			return command.Reply{Outcome: command.Failed, NotSent: true, Err: errNoGrant}, true
		}
		return command.Reply{}, false
	}).Settle()
	in := r.Wait(ctx.Done())
	err := a.checkWon(ctx, until, a.l.now())
	if !r.Won() && (in || err == nil) { // a context may have ended and not say so yet
		return withOp("acquire", votesError(r, confirmReason(r)))
	}
	return err
}

// errNoGrant is the error in the votes of nodes that a confirmation does not concern.
var errNoGrant = errors.New("did not grant")

// confirmReason returns ErrTooLate if nodes refused the confirmation: they have lost the key.
func confirmReason(r *vote.Round) error {
	if errors.Is(lossError(r).Reason, ErrHeld) {
		return ErrTooLate
	}
	return ErrNoQuorum
}
