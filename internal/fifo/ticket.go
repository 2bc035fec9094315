package fifo

// Ticket is a contender's place in the queues of its names. It is embedded in
// the contender; its zero value is ready to enter, and it may enter again once
// it has left. It must not be copied while it is in a queue. Its methods are
// safe for concurrent use with those of the queue that it entered last, and
// may be called only after that.
type Ticket struct {
	queue *Queue // set by Enter alone, read by the methods; its mu guards the rest

	entered bool
	behind  int // in how many lines somebody is ahead
	places  []entry
	single  [1]entry      // what places is made of for one name, the usual case
	turn    chan struct{} // nil until somebody waits by it
}

// begun is the turn of those that need not wait.
var begun = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// First reports whether it is t's turn: it is at the head of all its queues.
// That stays so until it leaves.
func (t *Ticket) First() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.first()
}

// Turn returns a channel that is closed when t's turn has come, never nil. That
// of a ticket that leaves before is not closed any more: who waits by it waits
// for the end of its own attempt too.
func (t *Ticket) Turn() <-chan struct{} {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.first() {
		return begun
	}
	if t.turn == nil {
		t.turn = make(chan struct{})
	}
	return t.turn
}

func (t *Ticket) first() bool { return t.entered && t.behind == 0 }

// enter makes room for n places, so that they do not move when they are taken.
func (t *Ticket) enter(q *Queue, n int) {
	t.queue, t.entered, t.behind, t.turn = q, true, 0, nil
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
	if t.behind--; t.behind == 0 && t.turn != nil {
		close(t.turn)
	}
}

// leave forgets the places, and with them the names and the neighbours.
func (t *Ticket) leave() {
	t.entered, t.places, t.single, t.turn = false, nil, [1]entry{}, nil
}
