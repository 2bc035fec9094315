package waiting

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Acquired records a lock that is held here. Its waiter leaves the queue. w may be nil.
func (t *Table) Acquired(h *Hold, w *Waiter) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range h.Names {
		s := t.getOrCreateLocked(name)
		s.holder, s.lasted = h, now.Sub(h.Began)
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
