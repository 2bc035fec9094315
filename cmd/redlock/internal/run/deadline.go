//go:build unix && !aix && !solaris

package run

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// deadline is the time until which the command may run: slack before the end of the lock's
// validity, and at most the grace after a loss.
type deadline struct {
	lock  *redlock.Lock
	clock clock.Clock
	grace time.Duration
	slack time.Duration

	mu   sync.Mutex // guards the fields below
	end  clock.Instant
	lost bool
}

func newDeadline(lock *redlock.Lock, p *runOptions) *deadline {
	l := &deadline{lock: lock, clock: clock.System(), grace: p.grace, slack: p.slack()}
	l.end = l.clock.Now()
	return l
}

// left returns how long the command may run from now on if the lock is not extended.
func (d *deadline) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.refresh()
	return d.end.Sub(now)
}

// refresh updates the end and returns the time at which it did. It reads the clock before the
// lock, so that the sum is never later than the real end. A lock that has ended reports no
// remaining time; the last known end then remains, which is early rather than late. The caller
// holds mu.
func (d *deadline) refresh() clock.Instant {
	now := d.clock.Now()
	if !d.lost {
		if valid := d.lock.Remaining(); valid > 0 {
			d.end = now.Add(valid - d.slack)
		}
	}
	return now
}

// markLost records that the lock is lost, or about to be. It refreshes the end once more before
// it sets lost; after that the end is fixed.
func (d *deadline) markLost() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.refresh()
	d.lost = true
	d.end = min(d.end, now.Add(d.grace))
}
