package redlock

import (
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
	// Attempt: all nodes were asked once for a lock, and it was decided; also for TryAcquire.
	Attempt func(AttemptEvent)
	// Waiting: an attempt of an Acquire or AcquireAll failed, and it waits.
	Waiting func(WaitingEvent)
	// Woken: a waiting Acquire goes on.
	Woken func(WokenEvent)
	// Acquired: an Acquire or AcquireAll succeeded, at once or after waiting.
	Acquired func(AcquiredEvent)
	// GaveUp: one failed that might have waited.
	GaveUp func(GaveUpEvent)
	// Extended: an extension was decided.
	Extended func(ExtendedEvent)
	// Ended: a hold ended, by whatever cause.
	Ended func(EndedEvent)
	// Released: Release knows how it went.
	Released func(ReleasedEvent)
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
	Names    []string
	Attempts int           // at least 1, the one that won included
	Waited   time.Duration // from the call on
}

// WaitingEvent is why an Acquire waits: Err is that of its attempt, and says who holds
// the name and for how long (HeldError).
type WaitingEvent struct {
	Names   []string
	Attempt int // the first is 1
	Err     error
}

// GaveUpEvent is the error that an Acquire returned.
type GaveUpEvent struct {
	Names  []string
	Err    error
	Waited time.Duration // from the call on
}

// WokenEvent is why a waiting Acquire tries again: "message" (a release was announced),
// "expiry" (of what the holder's keys had left), "poll", "subscription" (releases are
// heard of from now on), or "hand-over" (a lock of this process ended). A lock that is
// handed to it, with an attempt begun, wakes nobody: AcquiredEvent tells.
type WokenEvent struct {
	Names []string
	By    string
}

// ExtendedEvent is one extension's outcome. Err is nil when it took effect.
type ExtendedEvent struct {
	Names    []string
	Auto     bool // by WithAutoExtend, and not by Extend
	Err      error
	Took     time.Duration
	Validity time.Duration // left afterwards
}

// EndedEvent is the end of a hold.
type EndedEvent struct {
	Names []string
	Cause error         // ErrReleased, ErrLost, ErrMaxHold or ErrDetached
	Held  time.Duration // from the beginning of the acquisition on
}

// ReleasedEvent is what Release returned.
type ReleasedEvent struct {
	Names []string
	Err   error
	Took  time.Duration
}

func (l *Locker) traceAttempt(k *Lock, err error, now clock.Instant) {
	if l.events == nil {
		return
	}
	e := AttemptEvent{Names: k.names, Err: err, Took: now.Sub(k.acquire.start), Confirmed: k.confirmed}
	if err == nil {
		e.Validity = k.Remaining()
	}
	post(l.events, l.events.trace.Attempt, e)
}

func (l *Locker) traceAcquired(k *Lock, attempts int, began clock.Instant) {
	if l.events != nil {
		post(l.events, l.events.trace.Acquired, AcquiredEvent{k.names, attempts, l.now().Sub(began)})
	}
}

func (l *Locker) traceWaiting(w *wish, attempt int, err error) {
	if l.events != nil {
		post(l.events, l.events.trace.Waiting, WaitingEvent{w.names, attempt, err})
	}
}

func (l *Locker) traceGaveUp(w *wish, err error, began clock.Instant) {
	if l.events != nil {
		post(l.events, l.events.trace.GaveUp, GaveUpEvent{w.names, err, l.now().Sub(began)})
	}
}

func (l *Locker) traceWoken(v *waiter, by wakeUp) {
	if l.events != nil {
		post(l.events, l.events.trace.Woken, WokenEvent{v.wish.names, by.String()})
	}
}

func (l *Locker) traceExtended(k *Lock, x *extension, now clock.Instant) {
	if l.events == nil {
		return
	}
	e := ExtendedEvent{Names: k.names, Auto: x.auto, Err: x.failure(), Took: now.Sub(x.start), Validity: k.Remaining()}
	if e.Err != nil && e.Validity > 0 { // the end of a hold is logged by itself
		l.events.warn("extension failed", "names", k.names, "valid for", e.Validity, "error", e.Err)
	}
	post(l.events, l.events.trace.Extended, e)
}

func (k *Lock) traceEnd(cause error, now clock.Instant) {
	ev := k.l.events
	if ev == nil {
		return
	}
	e := EndedEvent{Names: k.names, Cause: cause, Held: now.Sub(k.began)}
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrMaxHold) {
		ev.warn("lock ended under its holder", "names", k.names, "owner", wire.Mask(k.terms.Token), "cause", cause, "held", e.Held)
	}
	post(ev, ev.trace.Ended, e)
}

func (l *Locker) traceReleased(k *Lock, err error, began clock.Instant) {
	if l.events == nil {
		return
	}
	if err != nil {
		l.events.warn("release", "names", k.names, "error", err)
	}
	post(l.events, l.events.trace.Released, ReleasedEvent{k.names, err, l.now().Sub(began)})
}

func (ev *events) vote(r *round, node int, rep wire.Reply, took time.Duration, late bool) {
	if ev.trace.Vote == nil || rep.Unsent && rep.Err == nil {
		return // a node that was spared said nothing
	}
	v := Vote{Node: r.l.nodes[node].Name(), Outcome: rep.Outcome, Err: rep.Err, Took: took}
	post(ev, ev.trace.Vote, VoteEvent{r.req.Op.String(), r.names, v, late})
}
