// Package waiting decides which waiter of a process tries next to acquire a name, and when
// (docs/dev/rules.md rules 19 to 22).
//
// A [Table] knows the waiters and the holders of a Locker, by name. Waiters of one name queue in
// order of arrival, and only the head of a queue sends requests to the nodes. A release hands the
// lock to the head, if the head waits for it, by submitting the head's attempt right after the
// release. A head that waits for another process subscribes to release announcements and polls the
// keys in case an announcement is lost.
//
// Three values decide, without a clock or a goroutine, and have tests that are tables or a simulation:
//
//   - look (look.go): when a waiter continues, and what it then does;
//   - turn and streak (turn.go, streak.go): in which order processes try after a release;
//   - sighted (sighted.go): what a waiter has seen of those that hold its names.
//
// A [Waiter] does what they say, in one loop (Waiter.await).
//
// The package decides no vote. It knows an acquisition as a [Contender], a held lock as a [Hold],
// and an attempt as a [vote.Round].
//
// One mutex, that of the Table, guards the state of all names and waiters. Under it only timers,
// subscriptions and Contender.Inherits are called. None calls back while it holds a mutex of its own.
package waiting
