package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// newGroup makes the group of nodes whose votes decide for the Locker.
func newGroup(l *Locker, nodes []command.Node) *vote.Group {
	g := &vote.Group{Nodes: nodes, Clock: l.set.clock, Timers: l.timers}
	if l.reporter != nil {
		g.OnAnswer = l.reporter.vote
	}
	return vote.NewGroup(g)
}

// noEvents is for a round whose owner only waits for the decision.
var noEvents vote.Events

// inspectRound makes a round that reads the keys for information only: it counts for no lock.
func (l *Locker) inspectRound(events *vote.Events, owner any, names []string) *vote.Round {
	t := &command.LockArgs{}
	t.Set(l.set.keys(names), "")
	r := l.readRound(events, owner, names, t)
	r.Request.Informational = true
	return r
}

// countedInspect makes a round that reads the keys of the lock and whose answers count as votes. Under
// the restart guard only nodes that vote grant it.
func (lk *Lock) countedInspect(events *vote.Events) *vote.Round {
	return lk.l.readRound(events, lk, lk.hold.Names, &lk.args)
}

func (l *Locker) readRound(events *vote.Events, owner any, names []string, t *command.LockArgs) *vote.Round {
	r := l.group.NewReading(events, owner, names)
	command.NewInspect(&r.Request, t)
	r.Start = l.now()
	return r
}

// runRound sends a round and waits for its decision, or until ctx ends.
func (l *Locker) runRound(ctx context.Context, r *vote.Round, timeout time.Duration) error {
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
