package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// extendingMost is how many automatic extensions of a Locker are undecided before other
// locks wait for their turn. It is a quarter of what the queue of a node takes by default
// (Config.Queue), so that the many locks that fall due together, after the process or a
// majority of the nodes stood still, do not fail together, and try again together. Nodes
// that do not answer hold nobody up for longer than the node timeout.
const extendingMost = 4096

// turns lets the automatic extensions of a Locker that can't all go out at once do so in
// line. One that falls due just when there is room does not stand in it. A lock that waits
// costs nothing until its turn comes, or until it has no time left to wait (Lock.waitUntil).
type turns struct {
	alarms *alarm.Queue
	alarm  alarm.Alarm // the turn of the first in line
	clock  clock.Clock

	mu       sync.Mutex // guards what follows; nobody is called under it but the alarms
	underWay int        // undecided
	line     []*Lock    // also such as do not wait any more
}

// wait puts a lock in line if it can't go now. Called under the lock's mu.
func (t *turns) wait(k *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay < extendingMost {
		return false
	}
	t.line = append(t.line, k)
	return true
}

// begin counts an extension that goes out.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay++
}

// end makes room for one that waits. It goes on the alarms' goroutine: this may be under
// a lock's sending, and deep in the submission of another extension.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	t.call()
}

// call wakes the first in line if there is room. Called under mu.
func (t *turns) call() {
	if len(t.line) > 0 && t.underWay < extendingMost {
		t.alarms.Set(&t.alarm, t.clock.Now(), time.Second, t)
	}
}

// Ring is called by the Locker's alarms. It lets one lock go, so that no other alarm waits
// for all of them.
func (t *turns) Ring(*alarm.Alarm) {
	if k := t.next(); k != nil {
		k.goOn()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call()
}

func (t *turns) next() *Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 || t.underWay >= extendingMost {
		return nil
	}
	k := t.line[0]
	t.line[0] = nil // or the array keeps it alive
	if t.line = t.line[1:]; len(t.line) == 0 {
		t.line = nil
	}
	return k
}
