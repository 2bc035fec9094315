package background

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Pool runs items on few goroutines, of which one is always free to take the next item. So an item that
// takes long delays no other, and a hundred thousand short ones need no goroutine each. Its methods are
// safe for concurrent use.
type Pool[T any] struct {
	run func(T)

	mu    sync.Mutex // guards the fields below; no item runs under it
	items []T
	free  bool             // a goroutine has begun and has not taken an item yet
	users int              // goroutines
	idle  signal.Broadcast // users has become 0
}

// NewPool returns a pool that calls run for each item.
func NewPool[T any](run func(T)) *Pool[T] { return &Pool[T]{run: run} }

// Add queues an item. It never blocks.
func (p *Pool[T]) Add(item T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = append(p.items, item)
	p.beginLocked()
}

// beginLocked begins a goroutine unless one is free.
func (p *Pool[T]) beginLocked() {
	if p.free {
		return
	}
	p.free = true
	p.users++
	go func() {
		for first := true; ; first = false {
			item, ok := p.next(first)
			if !ok {
				return
			}
			p.run(item)
		}
	}()
}

// next removes an item. If there is none the goroutine ends. first says that it has not run any item.
func (p *Pool[T]) next(first bool) (item T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		p.free = false
	}
	if len(p.items) == 0 {
		p.items = nil
		if p.users--; p.users == 0 {
			p.idle.Wake()
		}
		return item, false
	}
	item = p.items[0]
	var none T
	p.items[0] = none // or the array keeps it alive
	p.items = p.items[1:]
	if len(p.items) > 0 {
		p.beginLocked()
	}
	return item, true
}

// Join waits until nothing runs, but no longer than limit.
func (p *Pool[T]) Join(c clock.Clock, limit time.Duration) {
	p.mu.Lock()
	if p.users == 0 {
		p.mu.Unlock()
		return
	}
	idle := p.idle.Next()
	p.mu.Unlock()
	over, stop := timer.After(c, limit)
	defer stop()
	select {
	case <-idle:
	case <-over:
	}
}
