// Package redlock provides a distributed lock that is held by a majority of N independent Redis
// servers.
//
// A client holds a lock if N/2+1 nodes granted it. The lock is valid for its TTL less an allowance
// for clock drift and a margin for late timers. It is safe while the nodes keep what they
// acknowledged, and no node's clock gains more than the allowance on a client's clock during a TTL, by
// its rate and by steps forward together. docs/safety.md explains these conditions and what a lease
// cannot guarantee.
//
//	locker, err := redlock.Open([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	…
//	err = locker.Do(ctx, "invoice/42", 30*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
//		return settle(ctx, 42) // ctx ends with cause ErrLost before another client can hold the lock
//	})
//
// # Which call
//
//   - [Locker.Do] runs a function while a lock is held: it waits, extends, cancels and releases. Most
//     callers want it.
//   - [Locker.Acquire] waits and returns a [Lock] that the caller releases. [Locker.TryAcquire] does not
//     wait for a holder. [Locker.AcquireAll] and [Locker.TryAcquireAll] take all of several names.
//   - [Locker.Lead] lets one process at a time lead, for as long as it lives.
//   - [Lock.Detach] and [Locker.Resume] pass a lock on to another handle or process.
//   - [Locker.Inspect] tells who holds a name, [Locker.Held] what this Locker holds.
//   - [Locker.Healthy] tells whether the nodes can vote, and package doctor why not.
//
// # Which option
//
//   - Every service: [WithOwner] names the holder in errors, [WithKeyPrefix] separates users of the
//     same servers, and [WithLogger] logs what an operator should know.
//   - Servers that may forget what they acknowledged: [WithRestartGuard], and [WithRepair] with it.
//   - A resource that can refuse a late holder: [WithFencing], and [Lock.Fence].
//   - One acquisition: [WithWait] bounds the wait, [WithFailFast] does not wait for nodes,
//     [WithAutoExtend] extends the lock, [WithMaxHold] and [WithProgress] end a hold that hangs,
//     [WithMinHold] keeps a name after a short job, and [WithStopMargin] gives work time to stop.
//     [WithDefaults] gives such options to all acquisitions.
//
// # Which error
//
// Every error matches an error of this package by [errors.Is], or the cause of the caller's own context.
// Callers mostly need these:
//
//   - [ErrHeld]: another client holds the name, or votes were split. Wait, or skip the work if [HeldBy]
//     names the holder.
//   - [ErrNoQuorum] and [ErrQuarantined]: too few nodes vote. [QuorumError] has each node's answer. Raise
//     an alarm.
//   - [ErrLost] and [ErrMaxHold]: the lock ended before its work did. Stop the work.
//   - [ErrInvalid]: an argument is out of bounds, and nothing was sent.
//
// docs/errors.md lists all of them by their texts, and what to do.
package redlock

// The files of the package, from the outside in:
//
//	acquire.go, do.go, inspect.go                 of a Locker: Acquire and Resume, Do and Lead, questions
//	acquisition.go, attempt.go, holders.go        one call: a loop of attempts; one of them; who holds the names
//	locker.go, open.go, close.go, door.go         a Locker: start and end; what doctor and tests see of it
//	use.go, lock.go, claim.go                     a Lock: what users call; its end, and what is due; claims
//	context.go, context_bind.go                   its context, and contexts that are bound to it
//	undo.go, extension.go, survey.go, loss.go     a lock at the nodes: release, extension, question, loss
//	hold.go, keys.go, extending.go                its lease, what it has written, the requests about it
//	core.go, registry.go, reporter.go             what locks use: nodes and timers; all locks; hooks and log
//	options.go, lockoptions.go, settings.go       options, and what they set
//	checks.go, nodes.go                           the bounds of settings, of names, and of lists of nodes
//	vote.go, quorum_error.go                      errors of a node and of a quorum
//	lost.go, wait_error.go, errors.go             those of a lost lock and of a wait; errors to match
//	trace.go                                      hooks
//
// Packages internal/vote (one request to all nodes, one decision), internal/waiting (who tries next,
// and when) and internal/lease (what a held lock has to do next) have the rest.
