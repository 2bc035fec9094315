package redlock

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
)

// maxQueued bounds the queued calls of hooks and log entries.
const maxQueued = 4096

// dispatcher runs hooks and writes the log in the background. Locks do not wait for it, so a hook may
// block or call the library (docs/dev/hazards.md H105).
type dispatcher struct {
	trace   Trace
	logger  *slog.Logger // may be nil
	state   stateLog
	rights  *channelRights
	queue   *background.Queue[func()] // of hooks
	lines   *background.Queue[func()] // of the log, which Close waits for
	dropped atomic.Int64              // calls since the last report of such
}

func newDispatcher(traces []*Trace, logger *slog.Logger, nodes int) *dispatcher {
	if len(traces) == 0 && logger == nil {
		return nil
	}
	ev := &dispatcher{logger: logger}
	ev.queue, ev.lines = background.NewQueue(maxQueued, ev.call), background.NewQueue(maxQueued, ev.call)
	ev.state.notVoting = make([]atomic.Bool, nodes)
	for _, t := range traces {
		ev.trace.add(t)
	}
	return ev
}

// post queues a call of hook unless it is nil.
func post[E any](ev *dispatcher, hook func(E), e E) {
	if hook != nil {
		ev.run(func() { hook(e) })
	}
}

func (d *dispatcher) warn(msg string, args ...any) {
	if d != nil && d.logger != nil {
		d.add(d.lines, func() { d.logger.Warn("redlock: "+msg, args...) })
	}
}

func (d *dispatcher) info(msg string, args ...any) {
	if d.logger != nil {
		d.add(d.lines, func() { d.logger.Info("redlock: "+msg, args...) })
	}
}

func (d *dispatcher) run(f func()) { d.add(d.queue, f) }

func (d *dispatcher) add(to *background.Queue[func()], f func()) {
	if !to.Add(f) {
		d.dropped.Add(1)
	}
}

// call runs a queued call.
func (d *dispatcher) call(f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.report("a hook panicked", "panic", fmt.Sprint(p))
		}
	}()
	if n := d.dropped.Swap(0); n > 0 {
		d.report("hooks fell behind", "dropped", n)
	}
	f()
}

func (d *dispatcher) report(msg string, args ...any) {
	defer func() { _ = recover() }() // a panic of the logger itself cannot be reported
	logger := d.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("redlock: "+msg, args...)
}

// stateLog logs lasting states when they begin and when they end, not at every attempt: whether a
// quorum votes, and which nodes do not vote.
type stateLog struct {
	noQuorum  atomic.Bool   // the latest attempt found no quorum
	notVoting []atomic.Bool // by node: it does not vote
}

// noteAttempt records an attempt's outcome.
func (d *dispatcher) noteAttempt(names []string, err error) {
	switch {
	case d.logger == nil:
	case errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrQuarantined):
		// An error of the context shows nothing about the nodes.
		var cut *waitError
		if !errors.As(err, &cut) && !d.state.noQuorum.Swap(true) {
			d.warn("no quorum votes: nothing can be acquired", "names", printable(names), "error", err)
		}
	case err == nil || quorumVoted(err):
		if d.state.noQuorum.Load() && d.state.noQuorum.Swap(false) {
			d.info("a quorum votes again")
		}
	}
}

// quorumVoted reports whether a quorum of nodes voted in a failed attempt.
func quorumVoted(err error) bool {
	var e *QuorumError
	if !errors.As(err, &e) {
		return false
	}
	votes := 0
	for _, v := range e.Votes {
		if v.Outcome == OutcomeGranted || v.Outcome == OutcomeRefused {
			votes++
		}
	}
	return votes >= e.Need
}

// noteVote records a vote on an acquisition. Other commands are no evidence, because nodes that do
// not vote also execute them.
func (d *dispatcher) noteVote(node int, name string, rep command.Reply) {
	if d.logger == nil {
		return
	}
	out := &d.state.notVoting[node]
	if rep.Outcome == command.Granted || rep.Outcome == command.Refused {
		if out.Load() && out.Swap(false) {
			d.info("a node votes again", "node", name)
		}
		return
	}
	var q *QuarantineError
	if (errors.Is(rep.Err, ErrUnfit) || errors.As(rep.Err, &q)) && !out.Swap(true) {
		d.warn("a node does not vote", "node", name, "error", rep.Err)
	}
}
