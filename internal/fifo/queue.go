package fifo

import "sync"

// Queue holds the queues of all names. It has neither goroutines nor timers,
// and a name costs memory only while a ticket is in its queue. Its methods are
// safe for concurrent use.
type Queue struct {
	// mu guards lines and the tickets in them. Nothing blocks under it, and nobody is
	// called but Turners.
	mu     sync.Mutex
	queues map[string]queue
}

// queue is the queue of one name, never empty while it is in the map.
type queue struct {
	head, tail *entry
	count      int
}

// entry is a ticket's place in one line.
type entry struct {
	ticket     *Ticket
	name       string
	prev, next *entry
}

// New returns a queue that nobody waits in.
func New() *Queue { return &Queue{queues: map[string]queue{}} }

// Enter puts t at the end of the queues of all names, in one step, and reports
// whether it is t's turn at once; if not, to is told when it is. A name given
// twice counts once; with no name at all it is t's turn at once. It panics when
// t is in a queue already.
func (q *Queue) Enter(t *Ticket, names []string, to HeadListener) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.entered {
		panic("fifo: the ticket is in a queue already")
	}
	t.enter(q, len(names), to)
	for _, name := range names {
		q.append(t, name)
	}
	return t.firstLocked()
}

// append adds t to the line of name, unless it is in it: then it is the last,
// because nobody else has entered meanwhile.
func (q *Queue) append(t *Ticket, name string) {
	l := q.queues[name]
	if l.tail != nil && l.tail.ticket == t {
		return
	}
	e := t.entry()
	*e = entry{ticket: t, name: name, prev: l.tail}
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
		t.ahead++
	}
	l.tail = e
	l.count++
	q.queues[name] = l
}

// Leave takes t out of all its queues, wherever it stands in them, and so gives
// the turn on. It does nothing when t is in none.
func (q *Queue) Leave(t *Ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !t.entered {
		return
	}
	for i := range t.entries {
		q.remove(&t.entries[i])
	}
	t.leave()
}

func (q *Queue) remove(e *entry) {
	l := q.queues[e.name]
	if l.count--; l.count == 0 {
		delete(q.queues, e.name)
		return
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	if e.prev == nil {
		l.head = e.next
		l.head.ticket.advance()
	} else {
		e.prev.next = e.next
	}
	q.queues[e.name] = l
}

// Waiting returns how many tickets are in the queue of name, the one at its
// head included.
func (q *Queue) Waiting(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queues[name].count
}
