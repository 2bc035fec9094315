package alarm

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Queue rings alarms at their deadlines. Its methods are safe for concurrent
// use, also from within Ring. It has no goroutine but while it rings.
type Queue struct {
	clock clock.Clock

	// mu guards all below and every alarm set here. Nothing is rung under it.
	mu      sync.Mutex
	heap    deadlines
	slacks  slacks
	timer   clock.Timer // nil until the first alarm
	armed   bool
	wake    clock.Instant // armed: when the timer fires, if nothing is suspended
	period  time.Duration // armed: for how long it was set
	ringing bool          // one goroutine is in fire, and arms when it leaves
	stopped bool
}

// New returns an empty queue by the clock c.
func New(c clock.Clock) *Queue { return &Queue{clock: c} }

// Set makes a ring r at the instant at, in place of what it was set to before.
// It rings as soon as the queue's clock shows at or later and a timer fires:
// at once, but for a machine that was suspended meanwhile, on which it rings
// within lag of the waking (timers stand still in a suspend). The smallest lag
// of all alarms set is how often the queue wakes at least; it counts as 1 ms
// or 1 s when it is outside of these, and is rounded down to a half, a
// quarter and so on of a second. A stopped queue sets nothing.
func (q *Queue) Set(a *Alarm, at clock.Instant, lag time.Duration, r Handler) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	class := classOf(lag)
	q.slacks.add(class)
	if a.heapIndex == 0 {
		a.at, a.slackClass, a.handler = at, class, r
		heap.Push(&q.heap, a)
	} else {
		q.slacks.remove(a.slackClass)
		a.at, a.slackClass, a.handler = at, class, r
		heap.Fix(&q.heap, int(a.heapIndex-1))
	}
	// A timer that was set for no longer than the lag has no more than that to
	// go, however long the machine slept since. So in the usual case nothing
	// is to be done, and no clock to be read.
	if !q.armed || q.wake > at || q.period > maxSlack>>class {
		q.armLocked()
	}
}

// Clear unsets a. It returns true when a was set and will not ring for that
// setting any more, false when it was not set or its Ring has begun.
func (q *Queue) Clear(a *Alarm) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.heapIndex == 0 {
		return false
	}
	q.removeLocked(a)
	return true // the timer stays: firing once for nothing is cheaper
}

// Stop ends the queue: nothing begins to ring afterwards. A Ring under way may
// still be running. It may be called any number of times.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped, q.armed = true, false
	for len(q.heap) > 0 {
		q.removeLocked(q.heap[len(q.heap)-1])
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

// Len returns how many alarms are set.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap)
}

// removeLocked takes an alarm that is set out of the heap.
func (q *Queue) removeLocked(a *Alarm) {
	heap.Remove(&q.heap, int(a.heapIndex-1))
	q.slacks.remove(a.slackClass)
	a.handler = nil
}
