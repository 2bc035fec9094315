package redlocktest

import "time"

// Advance lets d pass at once, for the Lockers first and then for the masters. It is what a process sees that was paused for d, by its
// scheduler, its collector or its machine: whatever is due within d is due now. So a lock that has less than d left is lost, though its
// automatic extensions would have kept it in a world that runs: let time pass in smaller steps for that, or in a bubble. Contexts end
// on goroutines of their own: wait for Done, not for Err.
func (q *Quorum) Advance(d time.Duration) {
	q.t.Helper()
	if d < 0 {
		q.t.Fatalf("redlocktest: Advance(%v): time does not go back", d)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// What falls due for the Lockers asks the masters at once, and none may answer by a clock that is behind: a quarantine that is
	// over would last another d.
	for _, m := range q.masters {
		defer m.Pause()()
	}
	q.clock.Advance(d)
	q.ahead += d
	for _, m := range q.masters {
		m.SetClock(q.ahead)
	}
}

// ExpireNow lets the lease on a name run out now: its holder was paused for too long, its context ends with cause redlock.ErrLost, and
// the name is free. It does so by Advance, so that it ends every other lock that has no more time left. A name that nobody holds on
// any master ends the test, for it was misspelt or released.
func (q *Quorum) ExpireNow(name string) {
	q.t.Helper()
	var left time.Duration
	for _, m := range q.masters {
		left = max(left, m.TTL(name))
	}
	if left <= 0 {
		q.t.Fatalf("redlocktest: ExpireNow(%q): no master has a key of that name that can expire", name)
		return
	}
	q.Advance(left + time.Millisecond)
}
