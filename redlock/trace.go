package redlock

import (
	"context"
	"time"
)

// Trace is a set of hooks, like net/http/httptrace.ClientTrace. A nil hook is not called. Hooks run
// one after another on a goroutine of their own, in the order of events of each lock. They may
// block and may call the library. A panic in a hook is logged and does not stop later hooks. At
// most 4,096 events are queued. Further events are dropped, and their number is logged.
type Trace struct {
	// Opened is called once, when New or Open has made the Locker. For its present numbers of locks
	// and waiters see Locker.Stats, which counts no events.
	Opened func(*Locker)
	// Vote is called for every node's answer to any request, also if it is late.
	Vote func(VoteEvent)
	// Attempt is called when an attempt was decided: one request to all nodes for a lock, also by
	// TryAcquire. After a failed attempt it is called once the query for the reason has ended.
	Attempt func(RoundEvent)
	// Waiting is called when an attempt of Acquire or AcquireAll failed, or a poll found the name
	// still held, and the call waits.
	Waiting func(WaitEvent)
	// Woken is called when a waiting acquisition continues.
	Woken func(WaitEvent)
	// Acquired is called when a call of an Acquire method, of Do or of Lead has got its lock, or has
	// failed. It is not called for a share, nor for a call that is refused before its first attempt
	// (ErrInvalid, ErrAlreadyHeld, ErrClosed, or a context that has ended).
	Acquired func(WaitEvent)
	// Started is called when a hold begins: by any Acquire method, by Do or by Resume, or as a share.
	Started func(HoldEvent)
	// Extended is called when an extension was decided.
	Extended func(RoundEvent)
	// Ended is called when a hold ended, for any reason. Every hold that started ends once.
	Ended func(HoldEvent)
	// Released is called when the outcome of a release is known.
	Released func(RoundEvent)
}

// add makes t also call the hooks of more, after its own.
func (t *Trace) add(more *Trace) {
	t.Opened = chain(t.Opened, more.Opened)
	t.Vote = chain(t.Vote, more.Vote)
	t.Attempt = chain(t.Attempt, more.Attempt)
	t.Waiting = chain(t.Waiting, more.Waiting)
	t.Woken = chain(t.Woken, more.Woken)
	t.Acquired = chain(t.Acquired, more.Acquired)
	t.Started = chain(t.Started, more.Started)
	t.Extended = chain(t.Extended, more.Extended)
	t.Ended = chain(t.Ended, more.Ended)
	t.Released = chain(t.Released, more.Released)
}

// chain returns a hook that calls both. It calls second even if first panics.
func chain[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		defer second(e)
		first(e)
	}
}

// EventInfo is what all events of a lock have. The hook itself runs a little later.
type EventInfo struct {
	// Context is the context of the acquisition or of Resume. Hooks use its values, such as a trace
	// span. It may be done.
	Context context.Context
	// At is the wall clock's time, to the microsecond. Durations are not derived from it.
	At    time.Time
	Names []string // of the lock
}

// VoteEvent is one node's answer. It has no EventInfo, because an answer may be to a request that
// belongs to no lock.
type VoteEvent struct {
	// Op is "acquire", "confirm", "extend", "repair", "release", "shorten", "inspect" or "ping".
	Op    string
	Names []string
	Vote  Vote
	// Late reports that the round had been decided or the node timeout had passed.
	Late bool
}

// RoundEvent is the outcome of one request to all nodes: an attempt, an extension or a release.
type RoundEvent struct {
	EventInfo
	// Err is nil if a quorum granted the request and it took effect in time.
	Err      error
	Took     time.Duration // from before the first send to the decision
	Validity time.Duration // of the lock, at the decision; 0 after a failed attempt and a release
	// Auto reports that the library extended the lock (WithAutoExtend), not a call of Extend.
	Auto bool
	// Confirmed reports that the nodes had counted differently, so the fencing token of an attempt
	// took a second round trip (WithFencing).
	Confirmed bool
}

// WaitEvent is an event of one call of an Acquire method or of Do, or of one campaign of Lead.
type WaitEvent struct {
	EventInfo
	// Attempts is how many attempts were made. It is 0 before the first. In Trace.Acquired it
	// includes the attempt that won.
	Attempts int
	Waited   time.Duration // since the call
	// Err is, in Trace.Acquired, the error that the call returns, and nil if it got the lock. In
	// the other hooks it is the error of the last attempt. It contains the holder and the remaining
	// time (HeldError), which a poll updates. It matches ErrHeld before the first attempt, while
	// other requests of the Locker are ahead.
	Err error
	// Reason is, in Trace.Woken, why the call continues:
	//
	//   - "message": a release was announced
	//   - "expiry": the holder's keys or a quarantine have expired
	//   - "poll": a poll found that an attempt can succeed, or the pause between attempts is over
	//   - "subscription": release announcements are received from now on
	//   - "handoff": a lock of this process ended
	//
	// Woken is not called if a poll finds the name still held, or if the waiter receives a lock by a
	// handoff: see Trace.Acquired.
	Reason string
}

// HoldEvent reports that a hold started or ended.
type HoldEvent struct {
	EventInfo
	Cause error         // why the hold ended: a *LostError (ErrLost, ErrMaxHold), ErrReleased, ErrDetached or ErrClosed
	Held  time.Duration // since the start of the acquisition
	// Validity is the validity that is left. It is 0 for a lock that was lost or whose validity was
	// over, and for a share.
	Validity time.Duration
	// Shared reports that the handle is a share (WithShared). When it ends the shared lock continues.
	Shared bool
}
