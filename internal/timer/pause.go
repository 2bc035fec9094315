package timer

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// MinPause is the shortest pause that a queue notices. On a busy machine timers are often late by less.
const MinPause = 100 * time.Millisecond

// Pause is a time in which the process did not run, because the machine was suspended, or because the
// process was stopped or got no processor time. It shows itself by a timer of the clock that is late.
// The zero Pause is none.
type Pause struct{ From, Until clock.Instant }

// For returns how long the pause took at least. It may have begun earlier, by up to Slack.
func (p Pause) For() time.Duration { return p.Until.Sub(p.From) }

// LastPause returns the last pause while timers were set, also if no timer has run since.
func (q *Queue) LastPause() Pause {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notePauseLocked(q.clock.Now())
	return q.pause
}

// notePauseLocked records a pause if the clock's timer is late by one.
func (q *Queue) notePauseLocked(now clock.Instant) {
	if q.armed && now.Sub(q.wake) >= MinPause && q.pause.From != q.wake {
		q.pause, q.reported = Pause{q.wake, now}, false
	}
}

// reportPause calls OnPause for a new pause. It unlocks mu during the call.
func (q *Queue) reportPause() {
	if q.reported || q.pause == (Pause{}) || q.OnPause == nil {
		return
	}
	q.reported = true
	p := q.pause
	q.mu.Unlock()
	defer q.mu.Lock()
	q.OnPause(p)
}
