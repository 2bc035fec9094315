package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// undoQueue submits the undos of locks that the library ended: their time was over, or a
// quorum disowned them. Their contexts have ended before they come here. Its goroutines exist
// only while there is something to submit. Until then the lease stays in the books, so that
// Close waits for it and Resume refuses its token.
type undoQueue struct {
	blocking bool // the nodes may be the user's, and Submit may block

	mu      sync.Mutex // guards what follows; nobody is called under it
	queue   []*Lock
	running bool          // a goroutine takes them off the queue
	users   int           // goroutines: that one, and those that submit one undo
	idle    chan struct{} // closed when there is no goroutine; made by a Close that waits for that
}

// add queues the undo of a lock. It never blocks.
func (q *undoQueue) add(k *Lock) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, k)
	if !q.running {
		q.running = true
		q.users++
		go q.run()
	}
}

// run submits undos until there are none. An undo that may have to wait for somebody gets a
// goroutine of its own, so that it delays no other lock's undo or handoff.
func (q *undoQueue) run() {
	defer q.leave()
	for k := q.next(); k != nil; k = q.next() {
		if q.blocking || !k.sending.TryLock() {
			q.apart(k)
			continue
		}
		k.submitUndoLocked(undoHold, wire.ByLibrary)
		k.sending.Unlock()
	}
}

func (q *undoQueue) apart(k *Lock) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.users++
	go func() {
		defer q.leave()
		k.submitUndo(undoHold, wire.ByLibrary)
	}()
}

// next takes the next lock off the queue; nil ends run.
func (q *undoQueue) next() *Lock {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.queue, q.running = nil, false
		return nil
	}
	k := q.queue[0]
	q.queue[0] = nil // or the array keeps it alive
	q.queue = q.queue[1:]
	return k
}

func (q *undoQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.users--; q.users == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// join waits until nothing is being submitted, but no longer than limit: a node of the
// user's may block.
func (q *undoQueue) join(c clock.Clock, limit time.Duration) {
	q.mu.Lock()
	if q.users == 0 {
		q.mu.Unlock()
		return
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.mu.Unlock()
	over, stop := clock.After(c, limit)
	defer stop()
	select {
	case <-idle:
	case <-over:
	}
}
