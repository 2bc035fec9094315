package redlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// reporter has the hooks of a Locker, and what its log says of nodes and locks. It is nil without traces and without a
// logger, and then reports nothing.
type reporter struct {
	*report.Reporter
	set      *settings
	hooks    Trace
	votes    *report.Votes    // nil without a logger
	channels *report.Channels // nil without a logger
}

func newReporter(set *settings, nodes []command.Node) *reporter {
	if len(set.traces) == 0 && set.logger == nil {
		return nil
	}
	d := &reporter{Reporter: report.New(set.logger), set: set}
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

// now returns the current time, or 0 if no trace or log needs it.
func (d *reporter) now() clock.Instant {
	if d == nil {
		return 0
	}
	return d.set.clock.Now()
}

// subject is the lock that an event is about.
type subject struct {
	caller context.Context
	names  []string
	token  string
	began  clock.Instant
	shared bool
}

// info returns what all events of a lock have.
func (d *reporter) info(caller context.Context, names []string) EventInfo {
	return EventInfo{caller, time.UnixMicro(d.set.wall()), names}
}

// attempt reports the outcome of an attempt that was decided at an instant. The query for the reason of a failure came
// after that.
func (d *reporter) attempt(s subject, err error, decided clock.Instant, validity time.Duration, confirmed bool) {
	if d == nil {
		return
	}
	e := RoundEvent{
		EventInfo: d.info(s.caller, s.names), Err: err, Took: decided.Sub(s.began), Validity: validity, Confirmed: confirmed,
	}
	if err != nil {
		e.At = e.At.Add(-d.now().Sub(decided)).Truncate(time.Microsecond)
	}
	d.noteAttempt(s.names, err)
	post(d, d.hooks.Attempt, e)
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
	if d.hooks.Vote == nil || rep.NotSent && (rep.Err == nil || errors.Is(rep.Err, errNoGrant)) {
		// The node was skipped: no request was for it.
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

// started reports the start of a hold, before all its other events.
func (d *reporter) started(s subject, now clock.Instant, left time.Duration) {
	if d != nil && d.hooks.Started != nil {
		post(d, d.hooks.Started, d.holdEvent(s, nil, now, left))
	}
}

// ended reports the end of a hold. If the lock ended under its holder the log has a line. A share needs none: the lock
// that it belongs to has one. Where the nodes are asked for the next holder, the line comes with the answer.
func (d *reporter) ended(s subject, cause error, now clock.Instant, left time.Duration, logged bool) {
	if d == nil {
		return
	}
	if lost := lossIn(cause); lost != nil && !lost.end.asks && !logged {
		d.lost(s, lost)
	}
	if d.hooks.Ended != nil {
		post(d, d.hooks.Ended, d.holdEvent(s, cause, now, left))
	}
}

func (d *reporter) holdEvent(s subject, cause error, now clock.Instant, left time.Duration) HoldEvent {
	e := HoldEvent{EventInfo: d.info(s.caller, s.names), Cause: cause, Held: now.Sub(s.began), Shared: s.shared}
	if !e.Shared {
		e.Validity = max(0, left)
	}
	return e
}

// lost writes the log's line about a lock that ended under its holder.
func (d *reporter) lost(s subject, lost *LostError) {
	if d == nil {
		return
	}
	d.Warn("lock ended under its holder", "names", printable(s.names), "owner", command.Owner(s.token),
		"id", command.ID(s.token), "reason", lost.Reason, "cause", lost.Why(), "held", lost.end.over.Sub(lost.end.began))
}

// extended reports the outcome of an extension. e lacks what all events have.
func (d *reporter) extended(s subject, e RoundEvent) {
	e.EventInfo = d.info(s.caller, s.names)
	post(d, d.hooks.Extended, e)
}

// released reports the outcome of a release.
func (d *reporter) released(s subject, err error, began clock.Instant) {
	if d == nil {
		return
	}
	switch {
	case errors.Is(err, ErrLost):
		d.Warn("release found the lock lost", "names", printable(s.names), "error", err)
	case err != nil:
		d.Warn("release not confirmed", "names", printable(s.names), "error", err)
	}
	post(d, d.hooks.Released, RoundEvent{EventInfo: d.info(s.caller, s.names), Err: err, Took: d.now().Sub(began)})
}

// escaped returns names as logs may show them: those of a claim can contain any bytes.
func escaped(names []string) []string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = oneline.Printable(n)
	}
	return shown
}

// printable returns a few of the names of a lock for a log line.
func printable(names []string) []string {
	few, more := oneline.Few(names)
	shown := escaped(few)
	if more != "" {
		shown = append(shown, strings.TrimSpace(more))
	}
	return shown
}
