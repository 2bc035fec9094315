package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// maxExtending is how many automatic extensions of a Locker may be undecided before others are
// queued. It is a quarter of the default queue of a node (Config.Queue). After the process or a
// majority of the nodes stood still, many locks fall due together. The bound keeps their extensions
// from failing together and being retried together. A node that does not answer delays others by at
// most the node timeout.
const maxExtending = 4096

// extendLimiter queues the automatic extensions of a Locker that exceed maxExtending. An extension
// that falls due while there is room does not queue. A queued lock costs nothing until it is woken,
// or until it can wait no longer (Lock.extendQueueLimitLocked).
type extendLimiter struct {
	alarms *alarm.Queue
	alarm  alarm.Alarm // wakes the first lock in the queue
	clock  clock.Clock

	mu       sync.Mutex // guards the fields below; only the alarms are called under it
	underWay int        // undecided extensions
	queue    []*Lock    // may contain locks that no longer wait
}

// enqueue queues a lock and returns true if there is no room. The caller holds the lock's mu.
func (t *extendLimiter) enqueue(k *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay < maxExtending {
		return false
	}
	t.queue = append(t.queue, k)
	return true
}

// acquire counts an extension that is submitted.
func (t *extendLimiter) acquire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay++
}

// release makes room for a queued lock. The lock is woken on the alarms' goroutine, because the
// caller may hold the sending mutex of a lock and be inside the submission of another extension.
func (t *extendLimiter) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	t.wakeNextLocked()
}

// wakeNextLocked wakes the first lock in the queue if there is room.
func (t *extendLimiter) wakeNextLocked() {
	if len(t.queue) > 0 && t.underWay < maxExtending {
		t.alarms.Set(&t.alarm, t.clock.Now(), time.Second, t)
	}
}

// Fire is called by the Locker's alarms. It wakes only one lock, so that other alarms do not wait
// for all of them.
func (t *extendLimiter) Fire(*alarm.Alarm) {
	if k := t.pop(); k != nil {
		k.resumeExtend()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeNextLocked()
}

func (t *extendLimiter) pop() *Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 || t.underWay >= maxExtending {
		return nil
	}
	k := t.queue[0]
	t.queue[0] = nil // or the array keeps it alive
	if t.queue = t.queue[1:]; len(t.queue) == 0 {
		t.queue = nil
	}
	return k
}
