//go:build unix && !aix && !solaris

package main

import (
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// leash is until when the command may run: slack before the lock's validity ends,
// and no longer than the grace once the lock is lost.
type leash struct {
	lock  *redlock.Lock
	clock clock.Clock
	grace time.Duration
	slack time.Duration

	mu   sync.Mutex // guards what follows
	end  clock.Instant
	lost bool
}

func newLeash(lock *redlock.Lock, p *plan) *leash {
	l := &leash{lock: lock, clock: clock.System(), grace: p.grace, slack: p.slack()}
	l.end = l.clock.Now()
	return l
}

// left is how long the command may run from now on, if nothing extends the lock.
func (l *leash) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.look()
	return l.end.Sub(now)
}

// look brings the end up to date. The clock is read before the lock is asked, so that
// the sum is never later than the truth. A lock that has ended says nothing of the
// time that was left to it; what was seen last stands then, which is early rather
// than late. Called under mu.
func (l *leash) look() clock.Instant {
	now := l.clock.Now()
	if !l.lost {
		if valid := l.lock.Remaining(); valid > 0 {
			l.end = now.Add(valid - l.slack)
		}
	}
	return now
}

// lose says that the lock is lost, or about to be. From here on the end stands.
func (l *leash) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.look()
	l.lost = true
	l.end = min(l.end, now.Add(l.grace))
}

// Timers stand still while the machine is suspended. So whoever waits for an end
// looks again after this long at the latest.
const beat = time.Second

// nap is how long to sleep before looking again at what is left: short before the
// end, because then it matters.
func nap(left time.Duration) time.Duration { return min(max(left/4, 2*time.Millisecond), beat) }
