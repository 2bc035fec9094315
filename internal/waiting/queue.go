package waiting

// queue is the queue of one name. Table.mu guards it.
type queue struct {
	first, last *entry
}

// entry is a waiter in the queue of one name.
type entry struct {
	waiter     *Waiter
	state      *nameState
	prev, next *entry
}

func (q *queue) empty() bool { return q.first == nil }

// head returns the first waiter if it is also at the head of its other queues, otherwise nil.
func (q *queue) head() *Waiter {
	if q.first == nil || !q.first.waiter.atHead() {
		return nil
	}
	return q.first.waiter
}

// enterLocked appends the waiter to the queues of its names, in one step, so that waiters for
// overlapping sets of names do not wait for each other.
func (w *Waiter) enterLocked() {
	w.entries = w.single[:0]
	if len(w.names) > len(w.single) {
		w.entries = make([]entry, 0, len(w.names)) // entries must not move
	}
	for _, name := range w.names {
		s := w.table.getOrCreateLocked(name)
		w.entries = append(w.entries, entry{waiter: w, state: s, prev: s.last})
		e := &w.entries[len(w.entries)-1]
		if s.last == nil {
			s.first = e
		} else {
			s.last.next = e
			w.ahead++
		}
		s.last = e
	}
}

// atHead reports whether the waiter is at the head of all its queues. It then stays there until it
// leaves.
func (w *Waiter) atHead() bool { return len(w.entries) > 0 && w.ahead == 0 }

// leaveLocked removes the waiter from its queues, at any position, and lets the next ones advance.
// It does nothing if the waiter is in no queue.
func (w *Waiter) leaveLocked() {
	if len(w.entries) == 0 {
		return
	}
	for i := range w.entries {
		w.entries[i].remove()
	}
	w.unsubscribeLocked()
	w.entries, w.single, w.ahead = nil, [1]entry{}, 0 // keeps no neighbour alive
}

func (e *entry) remove() {
	s := e.state
	if e.next == nil {
		s.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
		return
	}
	if s.first = e.next; s.first != nil {
		s.first.waiter.advanceLocked()
	} else {
		s.joined = 0 // nobody waits any more
	}
	s.table.removeIfIdleLocked(s)
}

// advanceLocked records that the waiter has come to the head of one more queue. At the head of all
// it is woken, unless a lock of this process still holds one of its names: that lock's release will
// hand it off.
func (w *Waiter) advanceLocked() {
	if w.ahead--; w.ahead == 0 && !w.table.heldLocked(w.names) {
		w.wakeLocked(ByHandoff)
	}
}
