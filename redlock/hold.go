package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// noDeadline is an instant that never comes, such as the end of a share's own validity.
const noDeadline = lease.Never

// hold is one lock at the nodes, from the first command with its token to the last. A share has a hold without keys,
// whose lease has no end but that of WithMaxHold.
type hold struct {
	l      *Locker
	holder waiting.Hold    // the names, and the start of the acquisition; its owner is the Lock
	caller context.Context // of the acquisition, or of Resume: for hooks, and for the values of the lock's context
	outer  *hold           // the hold that a share shares; nil if this one has the keys
	args   command.LockArgs
	opts   holdOptions
	fence  int64       // the fencing token, constant once the lock is held; 0 without fencing
	keys   writtenKeys // which says what guards its fields
	timer  timer.Timer // ends the vote of the acquisition; from markHeld on it fires when applyDue has something to do

	// mu guards all fields below, those of the Lock, and what writtenKeys says. It is held while an extension or
	// a repair is checked and submitted, so none follows the release, which is submitted after the lock has
	// ended under mu. No user code and no event of a round runs under it. docs/dev/architecture.md has
	// the order of mutexes.
	mu        sync.Mutex
	lease     lease.Lease // its phase and its end are constant once it has ended
	cause     error       // why the hold ended; constant from then on
	extending extending
}

// lock returns the Lock of the hold.
func (h *hold) lock() *Lock { return h.holder.Owner.(*Lock) }

// isShare reports whether it is the hold of a share.
func (h *hold) isShare() bool { return h.outer != nil }

// keeper returns the hold that has the keys: itself, but for a share.
func (h *hold) keeper() *hold {
	for h.outer != nil {
		h = h.outer
	}
	return h
}

// markHeld turns the acquisition into a held lock.
func (h *hold) markHeld(until, now clock.Instant) {
	h.l.reporter.started(h, now, until.Sub(now))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease.Begin(h.holder.Began, until, now)
	h.keys.dropAcquire()
	h.scheduleLocked()
}

// wasHeld reports whether an acquisition or a hold that is over was a hold. That is constant, and needs no mutex.
func (h *hold) wasHeld() bool { return !h.lease.Acquiring() }

// leaseTimer is the timer's view of a hold. It keeps Fire out of a Lock's method set.
type leaseTimer hold

// Fire is called by the Locker's timers.
func (t *leaseTimer) Fire(*timer.Timer) { (*hold)(t).lock().onTimer() }

// scheduleLocked sets the timer to the next instant at which something is due, if the lock is held.
func (h *hold) scheduleLocked() {
	at := h.lease.Next()
	if at == noDeadline {
		h.l.timers.Clear(&h.timer)
		return
	}
	h.l.timers.Set(&h.timer, at, (*leaseTimer)(h))
}

// holdOptions are the options that a Lock keeps besides those of its lease. They are constant, but for minHold, which undoUnused clears.
type holdOptions struct {
	ttl           time.Duration // as acquired; automatic extensions ask for it
	minHold       time.Duration
	asyncRelease  bool
	boundToCaller bool // the lock's context ends with the caller's; for Do and Lead
	leads         bool // of Lead: Close ends the context at once
}

// minHoldLeft returns what remains of the minimum hold of a lock that began then, rounded up to whole milliseconds.
func (o *holdOptions) minHoldLeft(began, now clock.Instant) time.Duration {
	if left := began.Add(o.minHold).Sub(now); o.minHold > 0 && left > 0 {
		return max(MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond))
	}
	return 0
}

// remaining returns Remaining without regard to the lock that a share belongs to.
func (h *hold) remaining(now clock.Instant) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Remaining(now)
}

// supported returns until when all keys hold the token, counted from start and less drift. A key
// that never expires is not a lease.
func (h *hold) supported(start clock.Instant, keys []command.KeyState) (until clock.Instant, ours bool) {
	until = noDeadline
	for _, k := range keys {
		if k.Value != h.args.Token() || k.TTL < 0 {
			return 0, false
		}
		until = min(until, quorum.Until(start, min(k.TTL, h.l.set.maxTTL), h.l.set.drift))
	}
	return until, len(keys) > 0
}

// checked records that a quorum keeps the lock until an instant, as the answers to r show.
func (h *hold) checked(r *vote.Round, until clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease.Checked(r.Start, until, h.l.now())
	h.scheduleLocked()
	if h.lease.Ends() == until {
		h.l.group.NoteDecided(r, until, 0)
	}
}

// resume queries the nodes and starts the hold if a quorum still keeps the keys.
func (h *hold) resume(ctx context.Context) error {
	s := newSurvey(h)
	s.supports = func(keys []command.KeyState) bool {
		until, ours := h.supported(s.Start, keys)
		return ours && h.lease.Terms.Suffices(until.Sub(h.l.now())-time.Millisecond)
	}
	h.holder.Began = s.Start
	if err := s.run(ctx); err != nil {
		return withOp("resume", err)
	}
	until, kept, gone := s.until()
	now := h.l.now()
	switch {
	case gone:
		return withOp("resume", votesError(s.Round, ErrLost))
	case !kept:
		return withOp("resume", faultError(s.Round))
	case !h.lease.Terms.Suffices(until.Sub(now)):
		return withOp("resume", votesError(s.Round, ErrTooLate))
	}
	h.mu.Lock()
	h.keys.longest = max(h.keys.longest, s.longest())
	h.mu.Unlock()
	h.l.group.NoteDecided(s.Round, until, 0)
	h.l.waiting.Acquired(&h.holder, nil)
	h.markHeld(until, now)
	return nil
}

// extendLocked submits an extension, or returns nil if the lock cannot be extended. The release, which comes later,
// looks for it in extending.rounds. The caller settles what was not sent.
func (h *hold) extendLocked(ttl time.Duration, auto bool) (*extension, vote.Unsent) {
	now := h.l.now()
	if !h.lease.Extendable(now) {
		return nil, nil
	}
	h.keys.dropAcquire()
	x := &extension{hold: h, auto: auto}
	if !auto {
		x.applied = make(chan struct{})
	}
	r := h.l.group.New(&extendEvents, x, h.holder.Names)
	x.round, r.Start = r, now
	h.extending.begin(r)
	h.lease.Asked(now)
	h.keys.longest = max(h.keys.longest, ttl)
	command.NewExtend(&r.Request, &h.args, ttl, h.l.set.maxTTL, h.fence)
	// It is never sent after the validity is over (docs/dev/hazards.md H12).
	r.Request.NotAfter = h.lease.Ends()
	r.Arm(h.l.set.timeout(ttl))
	h.l.group.NoteBegan(r)
	return x, r.Send(nil)
}

// repairLocked creates the keys again on nodes that lost them. It is no vote, but those nodes can grant
// the next extension. Because it creates keys, it is not sent after the validity ends, and it is
// undone on every node that it was sent to, in order (docs/dev/rules.md rule 9). The caller settles
// what was not sent.
func (h *hold) repairLocked() vote.Unsent {
	r := h.l.group.New(&repairEvents, h, h.holder.Names)
	r.Rule, r.Start = vote.AfterAll, h.l.now() // Detach waits for the answers of all nodes
	missing := h.lease.TakeMissing(r.Start)
	if missing == 0 {
		return nil
	}
	h.keys.repaired |= missing
	h.extending.begin(r)
	command.NewRepair(&r.Request, &h.args, h.opts.ttl, h.l.set.maxTTL, h.fence)
	r.Request.NotAfter = h.lease.Ends()
	r.Arm(h.l.set.timeout(h.opts.ttl))
	h.l.group.NoteBegan(r)
	return r.Send(func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Failed, NotSent: true}, !missing.Has(node)
	})
}

// repairEvents are the events of a repair; its owner is the hold.
var repairEvents = vote.Events{OnComplete: func(r *vote.Round) { r.Owner.(*hold).unregister(r) }}

// unregister removes a round that is complete.
func (h *hold) unregister(r *vote.Round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extending.complete(r)
}

// markLostLocked marks a hold as lost because a quorum refused its token, as the votes show. It ends when the timer or
// a question about it applies what is due.
func (h *hold) markLostLocked(votes []Vote) {
	if h.lease.MarkLost(h.l.now()) {
		h.extending.inTrouble().votes = votes
	}
}
