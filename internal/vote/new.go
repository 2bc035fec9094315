package vote

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/signal"
)

// New makes a round about the names. The caller fills in the request, sets Start, and sends it.
func (g *Group) New(events *Events, owner any, names []string) *Round {
	n := len(g.Nodes)
	r := &Round{group: g, events: events, Owner: owner, Names: names, wake: signal.New()}
	r.Timer = &r.ownTimer
	if n <= len(r.inline) {
		r.ballots = newBallots(r.inline[:n])
	} else {
		r.ballots = newBallots(make([]Ballot, n))
	}
	r.pending.Store(int32(n + 1)) //nolint:gosec // at most 64
	for i := range r.ballots.ByNode {
		r.ballots.ByNode[i].cmd.Fill(&r.Request, i, (*receiver)(r))
	}
	return r
}

// NewReading makes a round that reads keys. It keeps their states.
func (g *Group) NewReading(events *Events, owner any, names []string) *Round {
	r := g.New(events, owner, names)
	r.ballots.KeyStates = make([][]command.KeyState, len(g.Nodes))
	return r
}

// Arm sets the time, counted from Start, in which answers count. It must precede Send. A request without a NotAfter is
// not sent after that time.
func (r *Round) Arm(timeout time.Duration) {
	r.deadline = r.Start.Add(timeout)
	if r.Request.NotAfter == 0 {
		r.Request.NotAfter = r.deadline
	}
	r.group.Timers.Set(r.Timer, r.deadline, (*voteTimer)(r))
}
