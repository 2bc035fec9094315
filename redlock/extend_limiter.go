package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// maxExtending is how many automatic extensions of a Locker are undecided before other
// locks wait for their turn. It is a quarter of what the queue of a node takes by default
// (Config.Queue), so that the many locks that fall due together, after the process or a
// majority of the nodes stood still, do not fail together, and try again together. Nodes
// that do not answer hold nobody up for longer than the node timeout.
const maxExtending = 4096

// extendLimiter lets the automatic extensions of a Locker that can't all go out at once do so in
// line. One that falls due just when there is room does not stand in it. A lock that waits
// costs nothing until its turn comes, or until it has no time left to wait (Lock.extendQueueLimitLocked).
type extendLimiter struct {
	alarms *alarm.Queue
	alarm  alarm.Alarm // the turn of the first in line
	clock  clock.Clock

	mu       sync.Mutex // guards what follows; nobody is called under it but the alarms
	underWay int        // undecided
	queue    []*Lock    // also such as do not wait any more
}

// enqueue puts a lock in line if it can't go now. Called under the lock's mu.
func (t *extendLimiter) enqueue(k *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay < maxExtending {
		return false
	}
	t.queue = append(t.queue, k)
	return true
}

// acquire counts an extension that goes out.
func (t *extendLimiter) acquire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay++
}

// release makes room for one that waits. It goes on the alarms' goroutine: this may be under
// a lock's sending, and deep in the submission of another extension.
func (t *extendLimiter) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	t.wakeNextLocked()
}

// wakeNextLocked wakes the first in line if there is room. Called under mu.
func (t *extendLimiter) wakeNextLocked() {
	if len(t.queue) > 0 && t.underWay < maxExtending {
		t.alarms.Set(&t.alarm, t.clock.Now(), time.Second, t)
	}
}

// Fire is called by the Locker's alarms. It lets one lock go, so that no other alarm waits
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
