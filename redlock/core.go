package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// core is what the locks of a Locker use. All fields but those of registry and waits are constant.
type core struct {
	nodes    []command.Voter // they belong to this Locker, and end with it
	set      settings
	guard    *guard.Settings          // nil without the restart guard
	group    *vote.Group              // the nodes as voters
	timers   *timer.Queue             // node timeouts and ends of held locks
	waiting  *waiting.Table           // waiters and holders of this process, by name
	reporter *reporter                // nil without traces and without a logger
	ends     *background.Queue[*hold] // of locks whose time is over and that have contexts or shares
	undos    *background.Queue[*hold] // of locks that the library ended: each stays registered until its undo was answered
	holdLog  *report.Held             // nil without a logger

	registry registry     // its locks
	waits    atomic.Int64 // requests that wait
}

func (l *core) now() clock.Instant { return l.set.clock.Now() }

// isClosed reports whether the Locker was closed. The zero Locker counts as closed.
func (l *core) isClosed() bool { return l.registry.isClosed() }

// notePause has the log say once that the process did not run, if that was long for some lock.
func (l *core) notePause(p timer.Pause) {
	l.holdLog.Paused(p, func() (locks int) {
		for _, h := range l.registry.all() {
			if lease.LongPause(p.For(), h.opts.ttl) {
				locks++
			}
		}
		return locks
	})
}

// newGroup makes the group of nodes whose votes decide for the Locker.
func newGroup(l *core, nodes []command.Node) *vote.Group {
	g := &vote.Group{Nodes: nodes, Clock: l.set.clock, Timers: l.timers}
	if l.reporter != nil {
		g.OnAnswer = l.reporter.vote
	}
	return vote.NewGroup(g)
}

// newWaitTable makes the table of the Locker's waiters and holders.
func newWaitTable(l *core) *waiting.Table {
	return waiting.NewTable(waiting.Config{
		Nodes: l.group.Nodes, Clock: l.set.clock, Timers: l.timers, Prefix: l.set.prefix, Backoff: l.set.backoff,
		PollTimeout: l.set.readTimeout(), OutageLeft: quarantineLeft, Closing: l.registry.closing, ErrClosed: ErrClosed,
	})
}

// inspectRound makes a round that reads the keys for information only: it counts for no lock.
func (l *core) inspectRound(events *vote.Events, owner any, names []string) *vote.Round {
	t := &command.LockArgs{}
	t.Set(l.set.keys(names), "")
	r := l.readRound(events, owner, names, t)
	r.Request.Informational = true
	return r
}

func (l *core) readRound(events *vote.Events, owner any, names []string, t *command.LockArgs) *vote.Round {
	r := l.group.NewReading(events, owner, names)
	command.NewInspect(&r.Request, t)
	r.Start = l.now()
	return r
}

// runRound sends a round and waits for its decision, or until ctx ends.
func (l *core) runRound(ctx context.Context, r *vote.Round, timeout time.Duration) error {
	if ctx.Err() != nil {
		return &waitError{op: r.Request.Op.String(), names: r.Names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	r.Arm(timeout)
	r.Send(nil).Settle()
	if !r.Wait(ctx.Done()) {
		return &waitError{op: r.Request.Op.String(), names: r.Names, cause: context.Cause(ctx), last: votesError(r, ErrNoQuorum)}
	}
	return nil
}

// noEvents is for a round whose owner only waits for the decision.
var noEvents vote.Events
