package report

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Held logs what endangers held locks: nodes that no longer have their keys, nodes that do not extend them, and pauses
// of the process. It writes one line for all locks when that begins, and one when it ends. Its methods are safe for
// concurrent use. A nil Held logs nothing.
type Held struct {
	log   *Reporter
	nodes []string // their names
	// silent are the nodes that do not extend locks. It changes under mu, and is read without it for each extension.
	silent atomic.Uint64

	mu     sync.Mutex // guards the fields below; nothing is called under it but the queue of lines
	states []nodeCopies
	paused clock.Instant // when the last pause began that was logged
}

// nodeCopies counts held locks that one node does not support.
type nodeCopies struct {
	lacking, mostLacking int // locks whose keys it no longer has: now, and at most since this was 0
	failing, mostFailing int // locks whose last extension failed on it: now, and at most since it is silent
}

// Copies are the nodes that do not support one lock, by their last answers to its extensions.
type Copies struct {
	Lacking quorum.Nodes // they no longer have the keys
	Failing quorum.Nodes // they failed, or did not answer
}

// NewHeld returns a Held for nodes with these names.
func NewHeld(log *Reporter, nodes []string) *Held {
	return &Held{log: log, nodes: nodes, states: make([]nodeCopies, len(nodes))}
}

// Silent returns the nodes that do not extend locks.
func (h *Held) Silent() quorum.Nodes { return quorum.Nodes(h.silent.Load()) }

// Changed records that other nodes do not support a lock than before. answered are the nodes that have just answered an
// extension, and why has the errors of those that failed.
func (h *Held) Changed(had, has Copies, answered quorum.Nodes, why []error) {
	if h == nil || had == has && h.Silent()&answered == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.states {
		h.lackingLocked(i, had.Lacking.Has(i), has.Lacking)
		h.failingLocked(i, had.Failing.Has(i), has.Failing.Has(i), answered.Has(i), why)
	}
}

// lackingLocked counts a lock whose keys a node has or lacks.
func (h *Held) lackingLocked(node int, had bool, lacking quorum.Nodes) {
	n, name := &h.states[node], h.nodes[node]
	switch has := lacking.Has(node); {
	case has && !had:
		if n.lacking++; n.lacking == 1 {
			n.mostLacking = 0
			h.log.Warn("a node no longer has the keys of held locks", "node", name, "locks", later{h, &n.mostLacking},
				"left", fmt.Sprintf("%d of %d", len(h.nodes)-lacking.Len(), len(h.nodes)))
		}
		n.mostLacking = max(n.mostLacking, n.lacking)
	case had && !has:
		if n.lacking--; n.lacking == 0 {
			h.log.Info("no held lock lacks its keys on a node any more", "node", name, "locks", n.mostLacking)
		}
	}
}

// failingLocked counts a lock that a node extends or does not extend. A node that does not is silent until it has
// answered an extension, also if the locks end before.
func (h *Held) failingLocked(node int, failed, fails, answered bool, why []error) {
	n, name, silent := &h.states[node], h.nodes[node], h.Silent()
	switch {
	case fails && !failed:
		n.failing++
	case failed && !fails:
		n.failing--
	}
	n.mostFailing = max(n.mostFailing, n.failing)
	switch {
	case fails && !silent.Has(node):
		h.silent.Store(uint64(silent.With(node)))
		n.mostFailing = n.failing
		h.log.Warn("a node does not extend held locks", "node", name, "error", why[node])
	case answered && n.failing == 0 && silent.Has(node):
		h.silent.Store(uint64(silent.Without(node)))
		h.log.Info("a node answers extensions again", "node", name, "locks", n.mostFailing)
	}
}

// later is a number of locks that is read when its line is written: by then more may be concerned.
type later struct {
	held  *Held
	locks *int
}

// LogValue implements slog.LogValuer.
func (l later) LogValue() slog.Value {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	return slog.IntValue(*l.locks)
}

// Paused logs a pause of the process once, if it was long for some of the locks, which are counted.
func (h *Held) Paused(p timer.Pause, locks func() int) {
	if h == nil || !h.first(p) {
		return
	}
	if n := locks(); n > 0 {
		h.log.Warn("this process did not run", "for", p.For(), "locks", n)
	}
}

// first reports whether the pause is a new one.
func (h *Held) first(p timer.Pause) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.From <= h.paused {
		return false
	}
	h.paused = p.From
	return true
}
