package redlock

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
)

// holdLog logs what endangers held locks: nodes that no longer have their keys, nodes that do not
// extend them, and pauses of the process. It writes one line for all locks when that begins, and one
// when it ends. A nil holdLog logs nothing.
type holdLog struct {
	log   *dispatcher
	nodes []command.Voter

	// silent are the nodes that do not extend locks. It changes under mu, and is read without it for
	// each extension.
	silent atomic.Uint64

	mu     sync.Mutex // guards the fields below; nothing is called under it but the dispatcher's queue
	states []nodeCopies
	paused clock.Instant // when the last pause began that was logged
}

// nodeCopies counts held locks that one node does not support.
type nodeCopies struct {
	lacking, mostLacking int // locks whose keys it no longer has: now, and at most since this was 0
	failing, mostFailing int // locks whose last extension failed on it: now, and at most since it is silent
}

// copies are the nodes that do not support one lock, by their last answers to its extensions.
type copies struct {
	lacking quorum.Nodes // they no longer have the keys
	failing quorum.Nodes // they failed, or did not answer
}

func newHoldLog(log *dispatcher, nodes []command.Voter) *holdLog {
	return &holdLog{log: log, nodes: nodes, states: make([]nodeCopies, len(nodes))}
}

// noteCopies records for the log which nodes support the lock, once all have answered an extension, and
// before that if no quorum has confirmed it in time and half of the validity is over. If all have granted
// it, that takes four reads.
func (lk *Lock) noteCopies(x *extension) {
	h := lk.l.holdLog
	if h == nil || x.refused.Load() == 0 && !x.failed.Load() && !x.troubled && h.silent.Load() == 0 {
		return
	}
	var granted, refused, failed quorum.Nodes
	why := make([]error, len(h.nodes))
	x.round.View(func(s *vote.Ballots) {
		for i := range s.ByNode {
			switch b := &s.ByNode[i]; {
			case !b.Counted: // it may answer in time
			case b.Last == command.Granted:
				granted = granted.With(i)
			case b.Last == command.Refused:
				refused = refused.With(i)
			case errors.Is(b.Err, command.ErrGivenUp), errors.Is(b.Err, pool.ErrClosed): // by this process
			default:
				failed, why[i] = failed.With(i), b.Err
			}
		}
	})
	lk.mu.Lock()
	if !lk.lease.Valid(lk.l.now()) { // its end has a line of its own
		lk.mu.Unlock()
		return
	}
	lk.dropAcquireLocked() // which knows the empty nodes
	had := lk.copiesLocked()
	has := copies{
		lacking: had.lacking&^granted | refused&^lk.keys.empty,
		failing: had.failing&^(granted|refused) | failed,
	}
	if has != had {
		lk.troubleLocked().copies = has
	}
	lk.mu.Unlock()
	h.changed(had, has, granted|refused, why)
}

// changed records that other nodes do not support a lock than before. answered are the nodes that have
// just answered an extension, and why has the errors of those that failed.
func (h *holdLog) changed(had, has copies, answered quorum.Nodes, why []error) {
	if h == nil || had == has && quorum.Nodes(h.silent.Load())&answered == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.states {
		h.lackingLocked(i, had.lacking.Has(i), has.lacking, len(h.nodes)-has.lacking.Len())
		h.failingLocked(i, had.failing.Has(i), has.failing.Has(i), answered.Has(i), why)
	}
}

// lackingLocked counts a lock whose keys a node has or lacks.
func (h *holdLog) lackingLocked(node int, had bool, lacking quorum.Nodes, left int) {
	n, name := &h.states[node], h.nodes[node].Name()
	switch has := lacking.Has(node); {
	case has && !had:
		if n.lacking++; n.lacking == 1 {
			n.mostLacking = 0
			h.log.run(func() { // "locks" is read when the line is written: by then more may be concerned
				h.log.logger.Warn("redlock: a node no longer has the keys of held locks", "node", name,
					"locks", h.most(&n.mostLacking), "left", fmt.Sprintf("%d of %d", left, len(h.nodes)))
			})
		}
		n.mostLacking = max(n.mostLacking, n.lacking)
	case had && !has:
		if n.lacking--; n.lacking == 0 {
			h.log.info("no held lock lacks its keys on a node any more", "node", name, "locks", n.mostLacking)
		}
	}
}

// failingLocked counts a lock that a node extends or does not extend. A node that does not is silent
// until it has answered an extension, also if the locks end before.
func (h *holdLog) failingLocked(node int, failed, fails, answered bool, why []error) {
	n, name := &h.states[node], h.nodes[node].Name()
	silent := quorum.Nodes(h.silent.Load())
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
		h.log.warn("a node does not extend held locks", "node", name, "error", why[node])
	case answered && n.failing == 0 && silent.Has(node):
		h.silent.Store(uint64(silent.Without(node)))
		h.log.info("a node answers extensions again", "node", name, "locks", n.mostFailing)
	}
}

// most reads a number of locks for a line that was queued.
func (h *holdLog) most(locks *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *locks
}

// notePause logs a pause of the process once, if it was long for some of the locks.
func (l *Locker) notePause(p timer.Pause) {
	h := l.holdLog
	if h == nil {
		return
	}
	h.mu.Lock()
	again := p.From <= h.paused
	h.paused = max(h.paused, p.From)
	h.mu.Unlock()
	if again {
		return
	}
	locks := 0
	l.mu.Lock()
	for _, lk := range l.locks {
		if lease.LongPause(p.For(), lk.opts.ttl) {
			locks++
		}
	}
	l.mu.Unlock()
	if locks > 0 {
		h.log.warn("this process did not run", "for", p.For(), "locks", locks)
	}
}

// lastPause returns the last time in which the process did not run.
func (l *Locker) lastPause() timer.Pause {
	p := l.timers.LastPause()
	l.notePause(p)
	return p
}
