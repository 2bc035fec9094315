package fifo

// Ticket is a contender's position in the queues of its names. It is embedded in the contender. The
// zero Ticket is ready to enter, and a ticket may enter again after it has left. It must not be
// copied while it is in a queue. Its methods are safe for concurrent use with those of the Queue
// that it entered last. They may be called only after Enter.
type Ticket struct {
	queue *Queue // set by Enter only and read by the methods; its mu guards the fields below

	entered  bool
	ahead    int          // number of queues in which other tickets are ahead
	listener HeadListener // called at the head
	entries  []entry
	single   [1]entry // backs entries for one name, the usual case
}

// HeadListener is notified when a ticket has come to the head.
type HeadListener interface {
	// OnHead is called once, when the last ticket ahead leaves, by that ticket's goroutine and
	// before its Leave returns. It runs under the queue's mutex, so that the ticket it concerns
	// cannot leave meanwhile. It must neither block nor call the Queue.
	OnHead()
}

// First reports whether t is at the head of all its queues. It then stays there until it leaves.
func (t *Ticket) First() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.firstLocked()
}

func (t *Ticket) firstLocked() bool { return t.entered && t.ahead == 0 }

// enter reserves n entries, so that they do not move when they are used.
func (t *Ticket) enter(q *Queue, n int, to HeadListener) {
	t.queue, t.entered, t.ahead, t.listener = q, true, 0, to
	t.entries = t.single[:0]
	if n > len(t.single) {
		t.entries = make([]entry, 0, n)
	}
}

// entry returns the next reserved entry.
func (t *Ticket) entry() *entry {
	t.entries = t.entries[:len(t.entries)+1]
	return &t.entries[len(t.entries)-1]
}

// advance records that t has come to the head of one more queue.
func (t *Ticket) advance() {
	if t.ahead--; t.ahead == 0 && t.listener != nil {
		t.listener.OnHead()
	}
}

// leave clears the ticket, so that it does not keep names and neighbours alive.
func (t *Ticket) leave() {
	t.entered, t.entries, t.single, t.listener = false, nil, [1]entry{}, nil
}
