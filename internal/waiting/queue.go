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

// place is where a waiter stands in the queues of its names. Table.mu guards it. The waiter's own goroutine alone
// changes entries, and so may read its length without the mutex.
type place struct {
	entries []entry  // empty: it has left
	single  [1]entry // backs entries for one name, the usual case
	ahead   int      // number of queues in which other waiters are ahead
}

// enterLocked appends the waiter to the queues of its names, in one step, so that waiters for
// overlapping sets of names do not wait for each other.
func (p *place) enterLocked(w *Waiter) {
	p.entries = p.single[:0]
	if len(w.names) > len(p.single) {
		p.entries = make([]entry, 0, len(w.names)) // entries must not move
	}
	for _, name := range w.names {
		s := w.table.getOrCreateLocked(name)
		p.entries = append(p.entries, entry{waiter: w, state: s, prev: s.last})
		e := &p.entries[len(p.entries)-1]
		if s.last == nil {
			s.first = e
		} else {
			s.last.next = e
			p.ahead++
		}
		s.last = e
	}
}

// atHead reports whether the waiter is at the head of all its queues. It then stays there until it
// leaves.
func (p *place) atHead() bool { return len(p.entries) > 0 && p.ahead == 0 }

// leaveLocked removes the waiter from its queues, at any position, and lets the next ones advance.
func (p *place) leaveLocked() {
	for i := range p.entries {
		p.entries[i].remove()
	}
	*p = place{} // keeps no neighbour alive
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
		if !s.first.waiter.inheritLocked(e.waiter) {
			s.first.waiter.advanceLocked()
		}
	} else if s.joined != 0 { // most have not waited, and need not read the clock
		s.givesUp(s.table.now())
	}
	s.table.removeIfIdleLocked(s)
}
