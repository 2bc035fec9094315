package waiting

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Handoff is what a release does for the next holder.
type Handoff struct {
	Attempt        *vote.Round // its acquire is submitted right after the release; nil: there is none
	SameNames      bool        // the attempt takes exactly the released names: no announcement
	CountWaiters   bool        // the release counts remote waiters and announces nothing
	OwnSubscribers int         // our own subscriptions that would receive an announcement
	// Age is how long this process had waited for its turn, for the announcement; 0 if it had not.
	Age time.Duration

	waiter *Waiter // gets the attempt
}

// Releasing ends a hold whose keys are deleted now, or end after left. It chooses the next holder in this process, before
// the release is sent. The caller submits the attempt, if there is one, and then calls Deliver.
func (t *Table) Releasing(h *Hold, now clock.Instant, left time.Duration) Handoff {
	t.mu.Lock()
	next, plan := t.pickNextLocked(h, now, left)
	t.mu.Unlock()
	if next == nil {
		return plan
	}
	if plan.Attempt = next.contender.NewAttempt(); plan.Attempt == nil {
		next.receive(nil)
		return plan
	}
	plan.waiter, plan.SameNames = next, slices.Equal(next.names, h.Names)
	return plan
}

// Deliver passes the attempt to its waiter. It must not be called before the attempt is submitted:
// if the waiter gave up before that, no waiter would learn of the release.
func (p *Handoff) Deliver() {
	if p.waiter != nil {
		p.waiter.receive(p.Attempt)
	}
}

// receive passes an attempt to the waiter, or tells it that there is none.
func (w *Waiter) receive(attempt *vote.Round) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if attempt == nil {
		w.phase = running
	}
	w.handoff = attempt
	w.wakeLocked(ByHandoff)
}

// pickNextLocked ends the hold of the lock's names. It picks a head that can have all of its names
// now, unless its keys remain or another process must have its turn first. It wakes the other heads, which attempt for
// themselves.
func (t *Table) pickNextLocked(h *Hold, now clock.Instant, left time.Duration) (next *Waiter, plan Handoff) {
	due, gone := false, now
	if left > 0 {
		gone = now.Add(left + rounding)
	}
	for _, name := range h.Names {
		s := t.names[name]
		if s == nil || s.holder != h {
			continue
		}
		s.holder = nil
		plan.Age = max(plan.Age, s.waited)
		plan.CountWaiters = s.holdEnds(gone, s.empty()) || plan.CountWaiters
		due = due || s.mustYield
	}
	plan.Age = plan.Age.Truncate(time.Microsecond) // as it is sent
	if t.channels.confirmedLocked(h.Names) {
		// A count that is too high would hide a waiter elsewhere. One that is too low makes this process yield to waiters
		// that do not exist.
		plan.OwnSubscribers = 1
	}
	h.forgotten = true
	for _, name := range h.Names {
		s := t.names[name]
		if s == nil {
			continue
		}
		s.said = plan.Age
		if c := t.channels.ofLocked(name); c != nil && s.empty() {
			c.keepLocked(now.Add(s.again()))
		}
		switch head := s.head(); {
		case head == nil || head == next:
		case next == nil && left == 0 && !due && head.canReceiveLocked():
			next = head
			next.phase = receiving
		default:
			head.wakeLocked(ByHandoff)
		}
		t.removeIfIdleLocked(s)
		h.forgotten = h.forgotten && t.names[name] == nil
	}
	return next, plan
}

// canReceiveLocked reports whether a head waits and no lock of this process holds any of its names.
// It runs on another goroutine than the waiter's. So it must not call the waiter's context, which
// may be the user's or that of a lock that ends when it is queried.
func (w *Waiter) canReceiveLocked() bool {
	if w.phase != parked {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
	}
	return w.table.holderLocked(w.names) == nil
}

// Acquired records a lock that is held here. Its waiter leaves the queue. w may be nil.
func (t *Table) Acquired(h *Hold, w *Waiter) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range h.Names {
		s := t.getOrCreateLocked(name)
		s.holder, s.outage, s.lasted = h, nil, now.Sub(h.Began)
		if !h.HandedOff {
			s.took(s.lasted)
		}
		if !h.HandedOff || s.holds == 0 { // the handoff may have been of another name
			s.holdBegins(h.Began, 3*t.cfg.Backoff.Min)
		}
		s.joined, s.gaveUpAt = 0, 0
		if w != nil && w.reason == ByMessage {
			s.granted()
		}
	}
	if w != nil {
		w.leaveLocked(Linger)
	}
}

// Ended records that a lock is no longer held here, although its keys may remain. It wakes the
// heads that wait for its names, which then attempt for themselves.
func (t *Table) Ended(h *Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range h.Names {
		s := t.names[name]
		if s == nil {
			continue
		}
		if s.holder == h {
			s.holder = nil
		}
		if head := s.head(); head != nil {
			head.wakeLocked(ByHandoff)
		}
		t.removeIfIdleLocked(s)
	}
}

// NoteOthers records whether other processes wait for the names of a lock that ended at an
// instant. If that is unknown, they do if another process was seen a short time ago.
func (t *Table) NoteOthers(h *Hold, ended clock.Instant, others command.Others) {
	if h.forgotten && others != command.OthersWait {
		return // the usual case
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range h.Names {
		s := t.names[name]
		switch {
		case s == nil && others != command.OthersWait:
			continue
		case s == nil:
			s = t.getOrCreateLocked(name)
			s.holds, s.start, s.releasedAt = 1, h.Began, ended
		}
		s.others = others == command.OthersWait || others == command.OthersUnknown && s.seenAt != 0 && t.now().Sub(s.seenAt) < Linger
		t.removeIfIdleLocked(s)
	}
}
