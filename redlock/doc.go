// Package redlock provides a distributed lock that is held by a majority of N independent Redis
// servers.
//
// A client holds a lock if N/2+1 nodes granted it. The lock is valid for its TTL less an allowance
// for clock drift and a margin for late timers. It is safe while the nodes keep what they
// acknowledged and clocks drift less than the allowance. docs/safety.md explains these conditions
// and what a lease cannot guarantee.
//
//	locker, err := redlock.Open([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	…
//	err = locker.Do(ctx, "invoice/42", 30*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
//		return settle(ctx, 42) // ctx ends with cause ErrLost before another client can hold the lock
//	})
//
// Most callers want [Locker.Do], which waits, extends, cancels and releases. [Locker.Acquire] and
// [Locker.TryAcquire] return a [Lock] that the caller releases.
package redlock

// The files of the package, from the outside in:
//
//	locker.go, options.go, lockoptions.go, close.go    a Locker: settings, start and end
//	node.go                                            what a Locker needs of a node
//	acquire.go, wait.go, attempt.go, holders.go        acquisition: attempts, waiting, who holds the names
//	rounds.go, outcome.go                              requests to all nodes, and their errors
//	lock.go, hold.go, fence.go                         the handle, its text forms and its validity
//	context.go, context_bind.go                        its context, and contexts that are bound to it
//	extend.go, extend_limiter.go, repair.go, check.go  requests about a held lock
//	release.go, claim.go, share.go, do.go              release, detach and resume, shares, Do and Lead
//	guard.go, diagnose.go                              the restart guard; whether nodes are fit to hold locks
//	errors.go, loss.go, inspect.go, stats.go           errors, why a lock was lost, who holds a name, what the Locker does now
//	successor.go                                       who holds the names of a lock that was lost
//	trace.go, events.go, holdlog.go, channel_rights.go hooks and logs
//
// Packages internal/vote (one request to all nodes, one decision), internal/waiting (who tries next,
// and when) and internal/lease (what a held lock has to do next) have the rest.
