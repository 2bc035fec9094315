package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
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
	// failed.
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
	Cause error         // why the hold ended: a *LostError (ErrLost, ErrMaxHold), ErrReleased or ErrDetached
	Held  time.Duration // since the start of the acquisition
	// Validity is the validity that is left. It is 0 for a lock that was lost or whose validity was
	// over, and for a share.
	Validity time.Duration
	// Shared reports that the handle is a share (WithShared). When it ends the shared lock continues.
	Shared bool
}

func (l *Locker) eventInfo(ctx context.Context, names []string) EventInfo {
	return EventInfo{ctx, time.UnixMicro(l.set.wall()), names}
}

func (lk *Lock) eventInfo() EventInfo { return lk.l.eventInfo(lk.ctx.parent, lk.hold.Names) }

// traceAttempt reports the outcome of an attempt that was decided at an instant. The query for the
// reason of a failure came after that.
func (l *Locker) traceAttempt(lk *Lock, err error, decided clock.Instant, validity time.Duration) {
	if l.reporter == nil {
		return
	}
	e := RoundEvent{
		EventInfo: lk.eventInfo(), Err: err, Took: decided.Sub(lk.hold.Began), Validity: validity, Confirmed: lk.keys.confirmed,
	}
	if err != nil {
		e.At = e.At.Add(-l.now().Sub(decided)).Truncate(time.Microsecond)
	}
	l.reporter.noteAttempt(lk.hold.Names, err)
	post(l.reporter, l.reporter.hooks.Attempt, e)
}

// traceTime returns the current time, or 0 if no trace or log needs it.
func (l *Locker) traceTime() clock.Instant {
	if l.reporter == nil {
		return 0
	}
	return l.now()
}

// noHooks are the hooks of a Locker without a trace.
var noHooks Trace

// traces returns the hooks.
func (l *Locker) traces() *Trace {
	if l.reporter == nil {
		return &noHooks
	}
	return &l.reporter.hooks
}

// trace completes an event of the request, and reports it.
func (a *acquisition) trace(hook func(WaitEvent), e WaitEvent) {
	if hook == nil {
		return
	}
	l := a.l
	e.EventInfo, e.Waited = l.eventInfo(a.caller, a.names), l.now().Sub(a.began)
	post(l.reporter, hook, e)
}

// traceWaiting reports that the request waits after its last attempt.
func (a *acquisition) traceWaiting() {
	a.trace(a.l.traces().Waiting, WaitEvent{Attempts: a.failures, Err: a.last})
}

// traceHold reports the start of a hold, before all its other events, or its end.
func (lk *Lock) traceHold(hook func(HoldEvent), cause error, now clock.Instant, left time.Duration) {
	if hook == nil {
		return
	}
	shared := lk.family.shareOf != nil
	e := HoldEvent{EventInfo: lk.eventInfo(), Cause: cause, Held: now.Sub(lk.hold.Began), Shared: shared}
	if !shared {
		e.Validity = max(0, left)
	}
	post(lk.l.reporter, hook, e)
}

func (l *Locker) traceExtended(lk *Lock, x *extension, now clock.Instant) {
	if l.reporter == nil {
		return
	}
	post(l.reporter, l.reporter.hooks.Extended, RoundEvent{
		EventInfo: lk.eventInfo(), Auto: x.auto, Err: x.failure(), Took: now.Sub(x.round.Start), Validity: lk.Remaining(),
	})
}

// logEnd writes the log's line about the end of a lock, if the lock ended under its holder. A share needs none:
// the lock that it belongs to has one. Where the nodes are asked for the next holder, the line comes with the answer.
func (lk *Lock) logEnd(cause error) {
	if lk.l.reporter == nil {
		return
	}
	var lost *LostError
	outer := lk.family.shareOf
	if errors.As(cause, &lost) && !lost.end.asks && (outer == nil || lost != outer.lost()) {
		lk.logLost(lost)
	}
}

// logLost writes the log's line about a lock that ended under its holder.
func (lk *Lock) logLost(lost *LostError) {
	if lk.l.reporter == nil {
		return
	}
	lk.l.reporter.Warn("lock ended under its holder", "names", printable(lk.hold.Names), "owner", command.Owner(lk.args.Token()),
		"id", lk.ID(), "reason", lost.Reason, "cause", lost.Why(), "held", lost.end.over.Sub(lost.end.began))
}

func (l *Locker) traceReleased(lk *Lock, err error, began clock.Instant) {
	if l.reporter == nil {
		return
	}
	switch {
	case errors.Is(err, ErrLost):
		l.reporter.Warn("release found the lock lost", "names", printable(lk.hold.Names), "error", err)
	case err != nil:
		l.reporter.Warn("release not confirmed", "names", printable(lk.hold.Names), "error", err)
	}
	post(l.reporter, l.reporter.hooks.Released, RoundEvent{EventInfo: lk.eventInfo(), Err: err, Took: l.now().Sub(began)})
}

// reporter has the hooks of a Locker, and what its log says of the nodes. It is nil without traces and without a logger.
type reporter struct {
	*report.Reporter
	hooks    Trace
	votes    *report.Votes    // nil without a logger
	channels *report.Channels // nil without a logger
}

func newReporter(set *settings, nodes []command.Node) *reporter {
	if len(set.traces) == 0 && set.logger == nil {
		return nil
	}
	d := &reporter{Reporter: report.New(set.logger)}
	for _, t := range set.traces {
		d.hooks.add(t)
	}
	if set.logger != nil {
		d.votes, d.channels = report.NewVotes(d.Reporter, len(nodes)), report.NewChannels(d.Reporter, nodes, set.prefix)
	}
	return d
}

// post queues a call of a hook unless it is nil.
func post[E any](d *reporter, hook func(E), e E) {
	if hook != nil {
		d.Run(func() { hook(e) })
	}
}

// noteAttempt records for the log whether a quorum voted in an attempt.
func (d *reporter) noteAttempt(names []string, err error) {
	var e *QuorumError
	var cut *waitError // an error of the context shows nothing about the nodes
	switch {
	case d.votes == nil:
	case errors.Is(err, ErrNoQuorum), errors.Is(err, ErrQuarantined):
		if !errors.As(err, &cut) {
			d.votes.NoQuorum(printable(names), err)
		}
	case err == nil, errors.As(err, &e) && e.votes() >= e.Need:
		d.votes.Quorum()
	}
}

// vote reports a node's answer.
func (d *reporter) vote(r *vote.Round, node int, rep command.Reply, took time.Duration, late bool) {
	if r.Request.Op == command.Acquire && d.votes != nil { // nodes that do not vote also execute other commands
		d.noteVote(r, node, rep)
	}
	if d.hooks.Vote == nil || rep.NotSent && rep.Err == nil {
		// The node was skipped: no request was sent to it.
		return
	}
	v := Vote{Node: r.NodeName(node), Outcome: Outcome(rep.Outcome), Err: rep.Err, Took: took}
	post(d, d.hooks.Vote, VoteEvent{r.Request.Op.String(), r.Names, v, late})
}

// noteVote records for the log whether a node votes on acquisitions.
func (d *reporter) noteVote(r *vote.Round, node int, rep command.Reply) {
	var q *QuarantineError
	switch {
	case rep.Outcome == command.Granted, rep.Outcome == command.Refused:
		d.votes.Voted(node, r.NodeName(node))
		d.channels.Voted(node, r.Request.Keys[0])
	case errors.Is(rep.Err, ErrUnfit), errors.As(rep.Err, &q):
		d.votes.NotVoting(node, r.NodeName(node), rep.Err)
	}
}
