// Package background runs work on goroutines that exist only while there is some.
package background

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Queue runs items. Its methods are safe for concurrent use.
type Queue[T any] struct {
	run  func(T)
	max  int  // queued items; 0: no bound
	pool bool // an item that takes long delays no other

	mu    sync.Mutex // guards the fields below; no item runs under it
	items []T
	users int              // goroutines
	free  bool             // one of them has begun and has not taken an item yet
	idle  signal.Broadcast // users has become 0
}

// NewQueue returns a queue that calls run for one item after another, in the order of Add. It queues up
// to max items; 0 means any number.
func NewQueue[T any](limit int, run func(T)) *Queue[T] { return &Queue[T]{run: run, max: limit} }

// NewPool returns a queue that calls run on few goroutines, of which one is always free to take the next
// item. So an item that takes long delays no other, and a hundred thousand short ones need no goroutine
// each.
func NewPool[T any](run func(T)) *Queue[T] { return &Queue[T]{run: run, pool: true} }

// Add queues an item. It never blocks, and returns false if there is no room.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.max > 0 && len(q.items) >= q.max {
		return false
	}
	q.items = append(q.items, item)
	q.beginLocked()
	return true
}

// beginLocked begins a goroutine if there is none or, in a pool, if none is free.
func (q *Queue[T]) beginLocked() {
	if q.users == 0 || q.pool && !q.free {
		q.users++
		q.free = true
		go q.drain(true)
	}
}

// drain runs the items until there is none. If one ends the goroutine by runtime.Goexit, as
// testing.T.FailNow does, another goroutine goes on. first says that it has run no item.
func (q *Queue[T]) drain(first bool) {
	over := false
	defer func() {
		if !over {
			go q.drain(false)
		}
	}()
	for ; ; first = false {
		item, ok := q.next(first)
		if !ok {
			over = true
			return
		}
		q.run(item)
	}
}

// next removes the next item. If there is none the goroutine has to end.
func (q *Queue[T]) next(first bool) (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first {
		q.free = false
	}
	if len(q.items) == 0 {
		q.items = nil
		if q.users--; q.users == 0 {
			q.idle.Wake()
		}
		return item, false
	}
	item = q.items[0]
	var none T
	q.items[0] = none // or the array keeps it alive
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.beginLocked()
	}
	return item, true
}

// Join waits until no item is left, but no longer than limit.
func (q *Queue[T]) Join(c clock.Clock, limit time.Duration) {
	q.mu.Lock()
	if q.users == 0 {
		q.mu.Unlock()
		return
	}
	idle := q.idle.Next()
	q.mu.Unlock()
	timer.Wait(c, limit, idle)
}
