// Package background runs work on goroutines that exist only while there is some.
package background

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Queue runs items one after another, in the order of Add. Its methods are safe for concurrent use.
type Queue[T any] struct {
	run func(T)
	max int // queued items; 0: no bound

	mu      sync.Mutex // guards the fields below; no item runs under it
	items   []T
	running bool             // a goroutine runs the items
	idle    signal.Broadcast // that goroutine ends
}

// NewQueue returns a queue that calls run for each item. It queues up to max items; 0 means any
// number.
func NewQueue[T any](limit int, run func(T)) *Queue[T] { return &Queue[T]{run: run, max: limit} }

// Add queues an item. It never blocks, and returns false if there is no room.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.max > 0 && len(q.items) >= q.max {
		return false
	}
	q.items = append(q.items, item)
	if !q.running {
		q.running = true
		go q.drain()
	}
	return true
}

// drain runs the items until there is none. If one ends the goroutine by runtime.Goexit, as
// testing.T.FailNow does, another goroutine runs the others.
func (q *Queue[T]) drain() {
	over := false
	defer func() {
		if !over {
			go q.drain()
		}
	}()
	for {
		item, ok := q.next()
		if !ok {
			over = true
			return
		}
		q.run(item)
	}
}

// next removes the next item. If there is none the goroutine of drain has to end.
func (q *Queue[T]) next() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		q.items, q.running = nil, false
		q.idle.Wake()
		return item, false
	}
	item = q.items[0]
	var none T
	q.items[0] = none // or the array keeps it alive
	q.items = q.items[1:]
	return item, true
}

// Join waits until no item is left, but no longer than limit.
func (q *Queue[T]) Join(c clock.Clock, limit time.Duration) {
	q.mu.Lock()
	if !q.running {
		q.mu.Unlock()
		return
	}
	idle := q.idle.Next()
	q.mu.Unlock()
	over, stop := timer.After(c, limit)
	defer stop()
	select {
	case <-idle:
	case <-over:
	}
}
