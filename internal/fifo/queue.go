package fifo

import "sync"

// Queue holds the queues of all names. It has neither goroutines nor timers. A name uses memory
// only while a ticket is in its queue. The methods are safe for concurrent use.
type Queue struct {
	// mu guards queues and the tickets in them. Nothing blocks under it, and only HeadListeners are
	// called.
	mu     sync.Mutex
	queues map[string]queue
}

// queue is the queue of one name. It is removed from the map when it becomes empty.
type queue struct {
	head, tail *entry
	count      int
}

// entry is a ticket in the queue of one name.
type entry struct {
	ticket     *Ticket
	name       string
	prev, next *entry
}

// New returns an empty Queue.
func New() *Queue { return &Queue{queues: map[string]queue{}} }

// Enter appends t to the queues of all names, in one step. It reports whether t is at the head of
// all of them at once. If not, to.OnHead is called later. A name that is given twice counts
// once. Without names t is at the head at once. Enter panics if t is already in a queue.
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

// append appends t to the queue of name, unless t is in it already. t is then the last entry,
// because no other ticket can enter meanwhile.
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

// Leave removes t from all its queues, at any position, and lets the next tickets advance. It does
// nothing if t is in no queue.
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

// Waiting returns how many tickets are in the queue of name, including the head.
func (q *Queue) Waiting(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queues[name].count
}
