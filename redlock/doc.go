// Package redlock holds a lock across N independent Redis masters by quorum.
//
// A lock belongs to whom N/2+1 masters granted it, for as long as its TTL lasts
// on them less the clocks' drift and a margin for late timers. It is safe while the masters keep what they
// acknowledged and clocks drift less than the allowance; docs/safety.md says
// what that means and what no lease can promise.
//
//	locker, err := redlock.Open([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	…
//	err = locker.Do(ctx, "invoice/42", 30*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
//		return settle(ctx, 42) // ctx ends with cause ErrLost before anybody else can hold the lock
//	})
//
// [Locker.Do] is what most callers want: it waits, extends, cancels and releases.
// [Locker.Acquire] and [Locker.TryAcquire] give a [Lock] to hold by hand.
//
// How the package is laid out, from the outside in:
//
//	locker.go, options.go, close.go   a Locker's life
//	acquire.go, wait.go               from a name to a Lock: queue, attempts, pauses
//	waiter.go, poll.go, listen.go     what a waiter does until an attempt can succeed
//	attempt.go, round.go              one question to all nodes, one decision
//	lock.go, hold.go, context.go      the handle, and how a hold ends
//	extend.go, release.go, check.go   what a holder asks of the nodes
//	claim.go, share.go, do.go         a lock that moves, is shared, or wraps a function
//	inspect.go, errors.go, trace.go   what is told to people and programs
//	diagnose.go, report.go            whether the nodes are fit to hold locks
package redlock
