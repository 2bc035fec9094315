package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// undoQueue submits the undos of locks that the library ended because their time was over or a
// quorum refused them. Their contexts have ended before. Its goroutines exist only while there are
// undos to submit. Until then the lock stays registered, so that Close waits for it and Resume
// rejects its token.
type undoQueue struct {
	blocking bool // nodes may be the user's, so Submit may block

	mu      sync.Mutex // guards the fields below; no callback runs under it
	queue   []*Lock
	running bool          // a goroutine runs the queue
	users   int           // goroutines: that one, and those that submit a single undo
	idle    chan struct{} // closed when the last goroutine ends; made by join
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

// run submits undos until the queue is empty. An undo whose submission may block gets a goroutine
// of its own, so that it delays no other lock's undo or handoff.
func (q *undoQueue) run() {
	defer q.leave()
	for k := q.next(); k != nil; k = q.next() {
		if q.blocking || !k.sending.TryLock() {
			q.apart(k)
			continue
		}
		k.submitUndoLocked(undoHold, command.ByLibrary)
		k.sending.Unlock()
	}
}

func (q *undoQueue) apart(k *Lock) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.users++
	go func() {
		defer q.leave()
		k.submitUndo(undoHold, command.ByLibrary)
	}()
}

// next removes the next lock from the queue. It returns nil if there is none; run then ends.
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

// join waits until no undo is being submitted, but no longer than limit, because a user's node may
// block.
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
