package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Trace is a set of hooks, in the manner of net/http/httptrace; a nil one is not
// called. Hooks run one after the other on a goroutine of their own, in the order in
// which things happened to each lock. They may block and call the library; one that
// panics is reported and the next goes on. When hooks fall behind by 4,096 events,
// further ones are dropped and counted in the log.
type Trace struct {
	// Vote: a node answered, in time or late, whatever it was asked.
	Vote func(VoteEvent)
	// Attempt: all nodes were asked once for a lock, and it was decided; also for TryAcquire. After one
	// that failed the nodes were queried for the reason.
	Attempt func(AttemptEvent)
	// Waiting: an attempt of an Acquire or AcquireAll failed, or a poll found the name still
	// held, and it waits.
	Waiting func(WaitingEvent)
	// Woken: a waiting Acquire goes on.
	Woken func(WokenEvent)
	// Acquired: an Acquire or AcquireAll succeeded, at once or after waiting.
	Acquired func(AcquiredEvent)
	// AcquireFailed: one failed that might have waited.
	AcquireFailed func(AcquireFailedEvent)
	// Extended: an extension was decided.
	Extended func(ExtendedEvent)
	// Ended: a hold ended, by whatever cause.
	Ended func(EndedEvent)
	// Released: Release knows how it went.
	Released func(ReleasedEvent)
}

// add makes t call the hooks of more, too, after its own.
func (t *Trace) add(more *Trace) {
	t.Vote = chain(t.Vote, more.Vote)
	t.Attempt = chain(t.Attempt, more.Attempt)
	t.Waiting = chain(t.Waiting, more.Waiting)
	t.Woken = chain(t.Woken, more.Woken)
	t.Acquired = chain(t.Acquired, more.Acquired)
	t.AcquireFailed = chain(t.AcquireFailed, more.AcquireFailed)
	t.Extended = chain(t.Extended, more.Extended)
	t.Ended = chain(t.Ended, more.Ended)
	t.Released = chain(t.Released, more.Released)
}

// chain calls two hooks. A panic in the first is no reason to leave out the second.
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

// EventInfo is when something happened to a lock, and for whom. Hooks run a little later, and
// on a goroutine of their own.
type EventInfo struct {
	// Context is what the lock was acquired or resumed with: for its values, as a trace's
	// span. It may be done.
	Context context.Context
	// At is the time by the wall clock, to the microsecond. Durations are not counted by it.
	At time.Time
}

// VoteEvent is one node's answer.
type VoteEvent struct {
	Op    string // "acquire", "confirm", "extend", "repair", "release", "shorten", "inspect" or "ping"
	Names []string
	Vote  Vote
	// Late: the round had been decided, or the node timeout had passed.
	Late bool
}

// AttemptEvent is one attempt's outcome. Err is nil when it won.
type AttemptEvent struct {
	EventInfo
	Names    []string
	Err      error
	Took     time.Duration // from before the first send to the decision
	Validity time.Duration // left when it won
	// Confirmed: the nodes had counted differently, and the fencing token took a second
	// round trip (WithFencing).
	Confirmed bool
}

// AcquiredEvent is the success of an Acquire.
type AcquiredEvent struct {
	EventInfo
	Names    []string
	Attempts int           // at least 1, the one that won included
	Waited   time.Duration // from the call on
}

// WaitingEvent is why an Acquire waits: Err is that of its last attempt, and says who holds
// the name and for how long (HeldError). A poll updates how long.
type WaitingEvent struct {
	Names   []string
	Attempt int // the first is 1
	Err     error
}

// AcquireFailedEvent is the error that an Acquire returned.
type AcquireFailedEvent struct {
	EventInfo
	Names  []string
	Err    error
	Waited time.Duration // from the call on
}

// WokenEvent is why a waiting Acquire tries again: "message" (a release was announced),
// "expiry" (of what the holder's keys had left, or of a quarantine), "poll" (a poll found that
// an attempt can succeed, or the pause between two attempts is over), "subscription" (releases are heard of from now on), or "hand-over"
// (a lock of this process ended). A poll that finds the name still held wakes nobody. A lock
// that is handed to it, with an attempt begun, wakes nobody: AcquiredEvent tells.
type WokenEvent struct {
	Names  []string
	Reason string
}

// ExtendedEvent is one extension's outcome. Err is nil when it took effect.
type ExtendedEvent struct {
	EventInfo
	Names    []string
	Auto     bool // by WithAutoExtend, and not by Extend
	Err      error
	Took     time.Duration
	Validity time.Duration // left afterwards
}

// EndedEvent is the end of a hold.
type EndedEvent struct {
	EventInfo
	Names []string
	Cause error         // ErrReleased, ErrLost, ErrMaxHold or ErrDetached
	Held  time.Duration // from the beginning of the acquisition on
	// Validity is the validity that was left; 0 when it was over, lost, or another lock's that
	// this was a share of.
	Validity time.Duration
	// Shared: it was a share of a lock (WithShared), which goes on.
	Shared bool
}

// ReleasedEvent is what Release returned.
type ReleasedEvent struct {
	EventInfo
	Names []string
	Err   error
	Took  time.Duration
}

func (l *Locker) eventInfo(ctx context.Context) EventInfo {
	return EventInfo{ctx, time.UnixMicro(l.set.wall())}
}

func (lk *Lock) eventInfo() EventInfo { return lk.l.eventInfo(lk.parentCtx) }

func (l *Locker) traceAttempt(k *Lock, err error, decided clock.Instant) {
	if l.dispatcher == nil {
		return
	}
	e := AttemptEvent{
		EventInfo: k.eventInfo(), Names: k.names, Err: err, Took: decided.Sub(k.began), Confirmed: k.confirmed,
	}
	if err == nil {
		e.Validity = k.Remaining()
	} else { // what followed was the query for the reason
		e.At = e.At.Add(-l.now().Sub(decided)).Truncate(time.Microsecond)
	}
	l.dispatcher.noteAttempt(k.names, err)
	post(l.dispatcher, l.dispatcher.trace.Attempt, e)
}

// traceTime is the present for those who are told how long something took, if there are any.
func (l *Locker) traceTime() clock.Instant {
	if l.dispatcher == nil {
		return 0
	}
	return l.now()
}

func (l *Locker) traceAcquired(k *Lock, attempts int, began clock.Instant) {
	if l.dispatcher != nil {
		post(l.dispatcher, l.dispatcher.trace.Acquired, AcquiredEvent{k.eventInfo(), k.names, attempts, l.now().Sub(began)})
	}
}

func (l *Locker) traceWaiting(w *request, attempt int, err error) {
	if l.dispatcher != nil {
		post(l.dispatcher, l.dispatcher.trace.Waiting, WaitingEvent{w.names, attempt, err})
	}
}

func (l *Locker) traceAcquireFailed(ctx context.Context, w *request, err error, began clock.Instant) {
	if l.dispatcher != nil {
		post(l.dispatcher, l.dispatcher.trace.AcquireFailed, AcquireFailedEvent{l.eventInfo(ctx), w.names, err, l.now().Sub(began)})
	}
}

func (l *Locker) traceWoken(v *waiter, by wakeReason) {
	if l.dispatcher != nil {
		post(l.dispatcher, l.dispatcher.trace.Woken, WokenEvent{v.req.names, by.String()})
	}
}

func (l *Locker) traceExtended(k *Lock, x *extension, now clock.Instant) {
	if l.dispatcher == nil {
		return
	}
	e := ExtendedEvent{
		EventInfo: k.eventInfo(), Names: k.names, Auto: x.auto, Err: x.failure(), Took: now.Sub(x.start), Validity: k.Remaining(),
	}
	if e.Err != nil && e.Validity > 0 { // the end of a hold is logged by itself
		l.dispatcher.warn("extension failed", "names", printable(k.names), "valid for", e.Validity, "error", e.Err)
	}
	post(l.dispatcher, l.dispatcher.trace.Extended, e)
}

func (lk *Lock) traceEnd(cause error, now clock.Instant, left time.Duration) {
	ev := lk.l.dispatcher
	if ev == nil {
		return
	}
	e := EndedEvent{
		EventInfo: lk.eventInfo(), Names: lk.names, Cause: cause, Held: now.Sub(lk.began), Validity: max(0, left), Shared: lk.root != nil,
	}
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrMaxHold) {
		ev.warn("lock ended under its holder", "names", printable(lk.names), "owner", wire.Mask(lk.terms.Token), "cause", cause, "held", e.Held)
	}
	post(ev, ev.trace.Ended, e)
}

func (l *Locker) traceReleased(k *Lock, err error, began clock.Instant) {
	if l.dispatcher == nil {
		return
	}
	if err != nil {
		l.dispatcher.warn("release", "names", printable(k.names), "error", err)
	}
	post(l.dispatcher, l.dispatcher.trace.Released, ReleasedEvent{k.eventInfo(), k.names, err, l.now().Sub(began)})
}

func (d *dispatcher) vote(r *round, node int, rep wire.Reply, took time.Duration, late bool) {
	if r.req.Op == wire.Acquire {
		d.noteVote(node, r.l.nodes[node].Name(), rep)
	}
	if d.trace.Vote == nil || rep.NotSent && rep.Err == nil {
		return // a node that was spared said nothing
	}
	v := Vote{Node: r.l.nodes[node].Name(), Outcome: rep.Outcome, Err: rep.Err, Took: took}
	post(d, d.trace.Vote, VoteEvent{r.req.Op.String(), r.names, v, late})
}
