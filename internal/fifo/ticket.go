package fifo

// Ticket is a contender's place in the queues of its names. It is embedded in
// the contender; its zero value is ready to enter, and it may enter again once
// it has left. It must not be copied while it is in a queue. Its methods are
// safe for concurrent use with those of the queue that it entered last, and
// may be called only after that.
type Ticket struct {
	queue *Queue // set by Enter alone, read by the methods; its mu guards the rest

	entered  bool
	ahead    int          // in how many lines somebody is ahead
	listener HeadListener // told of its turn
	entries  []entry
	single   [1]entry // what places is made of for one name, the usual case
}

// HeadListener is told that a ticket's turn has come.
type HeadListener interface {
	// OnHead is called once, by whoever left the queue as the last one ahead, before its
	// Leave returns. It is called under the queue's mutex, so that nobody it is about
	// has left: it must neither block nor call the queue.
	OnHead()
}

// First reports whether it is t's turn: it is at the head of all its queues.
// That stays so until it leaves.
func (t *Ticket) First() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.firstLocked()
}

func (t *Ticket) firstLocked() bool { return t.entered && t.ahead == 0 }

// enter makes room for n places, so that they do not move when they are taken.
func (t *Ticket) enter(q *Queue, n int, to HeadListener) {
	t.queue, t.entered, t.ahead, t.listener = q, true, 0, to
	t.entries = t.single[:0]
	if n > len(t.single) {
		t.entries = make([]entry, 0, n)
	}
}

// entry returns the next of the places that enter made room for.
func (t *Ticket) entry() *entry {
	t.entries = t.entries[:len(t.entries)+1]
	return &t.entries[len(t.entries)-1]
}

// advance tells t that it has come to the head of one more line.
func (t *Ticket) advance() {
	if t.ahead--; t.ahead == 0 && t.listener != nil {
		t.listener.OnHead()
	}
}

// leave forgets the places, and with them the names and the neighbours.
func (t *Ticket) leave() {
	t.entered, t.entries, t.single, t.listener = false, nil, [1]entry{}, nil
}
