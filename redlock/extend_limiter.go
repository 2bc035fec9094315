package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// maxExtending is how many automatic extensions of a Locker may be undecided before others are
// queued. It is a quarter of the default queue of a node (Config.Queue). After the process or a
// majority of the nodes stood still, many locks fall due together. The bound keeps their extensions
// from failing together and being retried together. A node that does not answer delays others by at
// most the node timeout.
const maxExtending = 4096

// extendLimiter queues the automatic extensions of a Locker that exceed maxExtending. An extension
// that falls due while there is room does not queue. A queued lock costs nothing until it is woken,
// or until it can wait no longer (lease.Lease.QueueLimit).
type extendLimiter struct {
	timers *timer.Queue
	timer  timer.Timer // wakes the first lock in the queue
	clock  clock.Clock

	mu       sync.Mutex // guards the fields below; only the timers are called under it
	inFlight int        // undecided extensions
	queue    []*Lock    // may contain locks that no longer wait
}

// enqueue queues a lock and returns true if there is no room. The caller holds the lock's mu.
func (t *extendLimiter) enqueue(lk *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inFlight < maxExtending {
		return false
	}
	t.queue = append(t.queue, lk)
	return true
}

// acquire counts an extension that is submitted.
func (t *extendLimiter) acquire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight++
}

// release makes room for a queued lock. The lock is woken on the timers' goroutine, because the
// caller may hold the sending mutex of a lock and be inside the submission of another extension.
func (t *extendLimiter) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight--
	t.wakeNextLocked()
}

// wakeNextLocked wakes the first lock in the queue if there is room.
func (t *extendLimiter) wakeNextLocked() {
	if len(t.queue) > 0 && t.inFlight < maxExtending {
		t.timers.Set(&t.timer, t.clock.Now(), time.Second, t)
	}
}

// Fire is called by the Locker's timers. It wakes only one lock, so that other timers do not wait
// for all of them.
func (t *extendLimiter) Fire(*timer.Timer) {
	if lk := t.pop(); lk != nil {
		lk.resumeExtend()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeNextLocked()
}

func (t *extendLimiter) pop() *Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 || t.inFlight >= maxExtending {
		return nil
	}
	lk := t.queue[0]
	t.queue[0] = nil // or the array keeps it alive
	if t.queue = t.queue[1:]; len(t.queue) == 0 {
		t.queue = nil
	}
	return lk
}
