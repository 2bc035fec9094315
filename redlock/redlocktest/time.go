package redlocktest

import "time"

// Advance advances the clocks by d at once, those of the Lockers first and then those of the
// servers. A process that was paused for d, by its scheduler, its collector or its machine, sees
// the same: everything due within d is due now. A lock with less than d of validity is therefore
// lost, even with automatic extension. To keep it, advance in smaller steps, or use a bubble.
// Contexts end on other goroutines: wait for Done, do not poll Err.
func (q *Quorum) Advance(d time.Duration) {
	q.t.Helper()
	if d < 0 {
		q.t.Fatalf("redlocktest: Advance(%v): time does not go back", d)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// Timers of the Lockers query the servers at once. No server may answer by a clock that is
	// behind: a quarantine that is over would last another d.
	for _, m := range q.masters {
		defer m.Pause()()
	}
	q.clock.Advance(d)
	q.ahead += d
	for _, m := range q.masters {
		m.SetClock(q.ahead)
	}
}

// ExpireNow lets the lease on a name expire now, as if its holder was paused for too long. The
// holder's context ends with cause redlock.ErrLost, and the name is free. ExpireNow uses Advance,
// so it also ends every other lock with no more validity left. If no server has the name's key, the
// test ends.
func (q *Quorum) ExpireNow(name string) {
	q.t.Helper()
	var left time.Duration
	for _, m := range q.masters {
		left = max(left, m.TTL(name))
	}
	if left <= 0 {
		q.t.Fatalf("redlocktest: ExpireNow(%q): no server has an expiring key of that name", name)
		return
	}
	q.Advance(left + time.Millisecond)
}
