//go:build unix && !aix && !solaris

package main

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// deadline is until when the command may run: slack before the lock's validity ends,
// and no longer than the grace once the lock is lost.
type deadline struct {
	lock  *redlock.Lock
	clock clock.Clock
	grace time.Duration
	slack time.Duration

	mu   sync.Mutex // guards what follows
	end  clock.Instant
	lost bool
}

func newDeadline(lock *redlock.Lock, p *runOptions) *deadline {
	l := &deadline{lock: lock, clock: clock.System(), grace: p.grace, slack: p.slack()}
	l.end = l.clock.Now()
	return l
}

// left is how long the command may run from now on, if nothing extends the lock.
func (d *deadline) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.refresh()
	return d.end.Sub(now)
}

// refresh brings the end up to date. The clock is read before the lock is asked, so that
// the sum is never later than the truth. A lock that has ended says nothing of the
// time that was left to it; what was seen last stands then, which is early rather
// than late. Called under mu.
func (d *deadline) refresh() clock.Instant {
	now := d.clock.Now()
	if !d.lost {
		if valid := d.lock.Remaining(); valid > 0 {
			d.end = now.Add(valid - d.slack)
		}
	}
	return now
}

// markLost says that the lock is lost, or about to be. From here on the end stands.
func (d *deadline) markLost() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.refresh()
	d.lost = true
	d.end = min(d.end, now.Add(d.grace))
}

// Timers stand still while the machine is suspended. So whoever waits for an end
// looks again after this long at the latest.
const refreshInterval = time.Second

// sleepAtMost is how long to sleep before looking again at what is left: short before the
// end, because then it matters.
func sleepAtMost(left time.Duration) time.Duration {
	return min(max(left/4, 2*time.Millisecond), refreshInterval)
}
