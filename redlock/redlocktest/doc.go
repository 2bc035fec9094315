// Package redlocktest is an in-memory quorum for tests of programs that use package redlock. Such
// tests show what a service does if another process holds the lock, if it loses the lock during its
// work, or if too few servers answer. Everything runs inside the test: without Redis, Docker,
// network or sleep.
//
//	q := redlocktest.New(t, 3)
//	service := NewService(q.Locker())
//	release := q.HoldElsewhere("invoice/42", time.Minute)
//	…
//	q.ExpireNow("invoice/42")
//
// # What is real
//
// The servers are small Redis servers in memory (miniredis). The [redlock.Locker] uses its own
// connections, commands and scripts, over pipes instead of sockets. A test therefore meets the same
// errors, votes, contexts, fences, wake-ups and quarantines as production. A fake of a node would
// be smaller but less faithful: it has no scripts, markers or subscriptions, and becomes a second
// server with every feature to be tested. The price is that test binaries contain miniredis
// and its Lua interpreter. Package redlock itself imports neither.
//
// The package does not measure speed: a command takes about 0.1 ms of CPU time.
//
// # Time
//
// In a testing/synctest bubble everything follows the bubble's virtual time if [New] is called
// inside it. Elsewhere it follows real time. [Quorum.Advance] and [Quorum.ExpireNow] advance the
// clocks of all Lockers and servers at once. Both also work in bubbles.
package redlocktest
