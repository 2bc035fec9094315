package fifo

// Ticket is a contender's place in the queues of its names. It is embedded in
// the contender; its zero value is ready to enter, and it may enter again once
// it has left. It must not be copied while it is in a queue. Its methods are
// safe for concurrent use with those of the queue that it entered last, and
// may be called only after that.
type Ticket struct {
	queue *Queue // set by Enter alone, read by the methods; its mu guards the rest

	entered bool
	behind  int    // in how many lines somebody is ahead
	turner  Turner // told of its turn
	places  []entry
	single  [1]entry // what places is made of for one name, the usual case
}

// Turner is told that a ticket's turn has come.
type Turner interface {
	// Turn is called once, by whoever left the queue as the last one ahead, before its
	// Leave returns. It is called under the queue's mutex, so that nobody it is about
	// has left: it must neither block nor call the queue.
	Turn()
}

// First reports whether it is t's turn: it is at the head of all its queues.
// That stays so until it leaves.
func (t *Ticket) First() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.first()
}

func (t *Ticket) first() bool { return t.entered && t.behind == 0 }

// enter makes room for n places, so that they do not move when they are taken.
func (t *Ticket) enter(q *Queue, n int, to Turner) {
	t.queue, t.entered, t.behind, t.turner = q, true, 0, to
	t.places = t.single[:0]
	if n > len(t.single) {
		t.places = make([]entry, 0, n)
	}
}

// place returns the next of the places that enter made room for.
func (t *Ticket) place() *entry {
	t.places = t.places[:len(t.places)+1]
	return &t.places[len(t.places)-1]
}

// advance tells t that it has come to the head of one more line.
func (t *Ticket) advance() {
	if t.behind--; t.behind == 0 && t.turner != nil {
		t.turner.Turn()
	}
}

// leave forgets the places, and with them the names and the neighbours.
func (t *Ticket) leave() {
	t.entered, t.places, t.single, t.turner = false, nil, [1]entry{}, nil
}
