package timer

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Queue fires timers at their deadlines. Its methods are safe for concurrent use, also from within
// Fire. It has a goroutine only while timers fire.
type Queue struct {
	// OnPause is called, like a handler, for each Pause of at least MinPause and before any handler that
	// the pause has delayed. It may be nil, and does not change after the first Set.
	OnPause func(Pause)

	clock clock.Clock

	// mu guards the fields below and every timer that is set here. No handler runs under it.
	mu         sync.Mutex
	heap       deadlines
	clockTimer clock.Timer // nil until the first timer
	armed      bool
	wake       clock.Instant // if armed: when the clock's timer fires, unless the machine is suspended
	firing     bool          // a goroutine is in run, and calls armLocked at its end
	pause      Pause         // the last one
	reported   bool          // OnPause was called for it
}

// New returns an empty queue with the clock c.
func New(c clock.Clock) *Queue { return &Queue{clock: c} }

// Slack is how long after a suspend a handler may run late, and the longest time between two wake-ups
// of a queue that has timers.
const Slack = 100 * time.Millisecond

// Set sets a to call r at the instant at. It replaces an earlier setting. The handler runs as soon
// as the queue's clock has reached at and a timer fires. That is at once, unless the machine was
// suspended meanwhile. The clock's timers stop during a suspend. The handler then runs within Slack
// of waking up.
func (q *Queue) Set(a *Timer, at clock.Instant, r Handler) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a.at, a.handler = at, r
	if a.heapIndex == 0 {
		heap.Push(&q.heap, a)
	} else {
		heap.Fix(&q.heap, int(a.heapIndex-1))
	}
	// The clock's timer, once set, fires within Slack, however long the machine was suspended since. So
	// in the usual case there is nothing to do, and no clock to read.
	if !q.armed || q.wake > at {
		q.armLocked()
	}
}

// Clear clears a. It returns true if a was set and will not fire for that setting. It returns false
// if a was not set or its handler has been started.
func (q *Queue) Clear(a *Timer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.heapIndex == 0 {
		return false
	}
	q.removeLocked(a)
	return true // the clock's timer stays set: an idle firing is cheaper than a reset
}

// Len returns how many timers are set.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap)
}

// removeLocked removes a set timer from the heap.
func (q *Queue) removeLocked(a *Timer) {
	heap.Remove(&q.heap, int(a.heapIndex-1))
	a.handler = nil
}

// armLocked sets the clock's timer for the earliest deadline, but for no longer than Slack. While run is
// active it does nothing, because run calls it at its end. A slow handler therefore delays the others, but
// two handlers never run concurrently.
func (q *Queue) armLocked() {
	if q.firing || len(q.heap) == 0 {
		return
	}
	now := q.clock.Now()
	q.notePauseLocked(now)
	d := min(max(q.heap[0].at.Sub(now), 0), Slack)
	q.armed, q.wake = true, now.Add(d)
	if q.clockTimer == nil {
		q.clockTimer = q.clock.AfterFunc(d, q.run)
		return
	}
	q.clockTimer.Reset(d)
}

// run fires all timers that are due. A late call, after the clock's timer was set again, is
// harmless: it finds the queue firing, or fires what is due and sets the clock's timer again.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.firing {
		return
	}
	q.notePauseLocked(q.clock.Now())
	q.firing, q.armed = true, false
	q.reportPause()
	for len(q.heap) > 0 && !q.heap[0].at.After(q.clock.Now()) {
		q.fire(q.heap[0])
	}
	q.firing = false
	q.armLocked()
}

// fire clears a and calls its handler. It unlocks mu during the call.
func (q *Queue) fire(a *Timer) {
	r := a.handler
	q.removeLocked(a)
	q.mu.Unlock()
	defer q.mu.Lock()
	r.Fire(a)
}
