package timer

// armLocked sets the clock's timer for the earliest deadline, but for no longer than Slack. While run is
// active it does nothing, because run calls it at its end. A slow handler therefore delays the others, but
// two handlers never run concurrently.
func (q *Queue) armLocked() {
	if q.firing || len(q.heap) == 0 {
		return
	}
	now := q.clock.Now()
	q.notePauseLocked(now)
	d := min(max(q.heap[0].at.Sub(now), 0), Slack)
	q.armed, q.wake = true, now.Add(d)
	if q.clockTimer == nil {
		q.clockTimer = q.clock.AfterFunc(d, q.run)
		return
	}
	q.clockTimer.Reset(d)
}

// run fires all timers that are due. A late call, after the clock's timer was set again, is
// harmless: it finds the queue firing, or fires what is due and sets the clock's timer again.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.firing {
		return
	}
	q.notePauseLocked(q.clock.Now())
	q.firing, q.armed = true, false
	q.reportPause()
	for len(q.heap) > 0 && !q.heap[0].at.After(q.clock.Now()) {
		q.fire(q.heap[0])
	}
	q.firing = false
	q.armLocked()
}

// fire clears a and calls its handler. It unlocks mu during the call.
func (q *Queue) fire(a *Timer) {
	r := a.handler
	q.removeLocked(a)
	q.mu.Unlock()
	defer q.mu.Lock()
	r.Fire(a)
}
