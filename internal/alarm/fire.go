package alarm

import "time"

// armLocked sets the timer for the earliest deadline, and for no longer than the
// smallest lag. With mu held.
//
// While fire is at work it does nothing: fire arms at its end. So a slow Ring
// delays the others, but two never run at once.
func (q *Queue) armLocked() {
	if q.ringing || q.stopped || len(q.heap) == 0 {
		return
	}
	now := q.clock.Now()
	d := min(max(q.heap[0].at.Sub(now), 0), q.slacks.least())
	q.armed, q.wake, q.period = true, now.Add(d), d
	q.setLocked(d)
}

func (q *Queue) setLocked(d time.Duration) {
	if q.timer == nil {
		q.timer = q.clock.AfterFunc(d, q.run)
		return
	}
	q.timer.Reset(d)
}

// run rings what is due. A firing that Stop or a later arming came too late
// for does no harm: it finds the queue stopped or ringing, or rings what is due
// and arms anew.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ringing {
		return
	}
	q.ringing, q.armed = true, false
	for len(q.heap) > 0 && !q.heap[0].at.After(q.clock.Now()) {
		q.fire(q.heap[0])
	}
	q.ringing = false
	q.armLocked()
}

// fire unsets a and rings it, without mu.
func (q *Queue) fire(a *Alarm) {
	r := a.handler
	q.removeLocked(a)
	q.mu.Unlock()
	defer q.mu.Lock()
	r.Fire(a)
}
