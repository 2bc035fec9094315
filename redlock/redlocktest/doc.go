// Package redlocktest is an in-memory quorum for tests of programs that use package redlock: what does a service do when somebody
// else holds the lock, when it loses it in the middle of its work, when too few masters answer? Everything runs inside the test:
// no Redis, no Docker, no network, no sleep.
//
//	q := redlocktest.New(t, 3)
//	service := NewService(q.Locker())
//	release := q.HoldElsewhere("invoice/42", time.Minute)
//	…
//	q.ExpireNow("invoice/42")
//
// # What is real in it
//
// The masters are small Redis servers in memory (miniredis), and the [redlock.Locker] speaks to them by its own connections, commands
// and scripts, over pipes in place of sockets. So a test meets the errors, votes, contexts, fences, wake-ups and quarantines that
// production will meet, and none that somebody made up. A fake at the interface [redlock.Node] would be smaller and would have to
// be believed: it has no scripts, no markers, no subscriptions, and grows into a second server with every feature that is to be tested.
// The price is miniredis and its Lua interpreter in test binaries that import this package; package redlock itself imports neither.
//
// It is no measure of speed: a command costs about a tenth of a millisecond of processor time here.
//
// # Time
//
// In a testing/synctest bubble all of it follows the bubble's virtual time: call [New] inside of it. Elsewhere it follows real time,
// and [Quorum.Advance] and [Quorum.ExpireNow] let time pass at once, for the Lockers and the masters alike. Both work in bubbles, too.
package redlocktest
