package vote

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Unref drops a reference to the round. The last one makes the round available to another lock.
// There is one reference for each node's answer until it was handled, and one for the owner until it
// calls Unref, after which it must not use the round. A round whose owner never calls Unref is
// left to the garbage collector.
//
// An answer that is not final (see isFinal) keeps its reference, so its round is never reused
// (docs/dev/adr/0012-reuse-of-in-flight-state.md). Such a round costs memory but is never shared by
// mistake.
func (r *Round) Unref() {
	g := r.group
	if !g.Reuse || r.users.Add(-1) > 0 {
		return
	}
	r.reset()
	g.spare.Put(r)
}

// reset empties the round, except for its group, its wake channel and its ballots' memory. Nothing
// else uses it now.
func (r *Round) reset() {
	clear(r.ballots)
	r.Request, r.Names, r.Start, r.Rule, r.Owner, r.events = command.Request{}, nil, 0, Earliest, nil, nil
	r.timer, r.deadline = timer.Timer{}, 0
	r.keyStates, r.refused = nil, 0
	r.decision.Store(uint32(quorum.Open))
	r.wake.Clear() // set by a decision that no caller waited for
}

// Pin prevents the reuse of the round. The caller must have a reference to it.
func (r *Round) Pin() { r.users.Add(1) }

// isFinal reports whether a node no longer uses a command after this answer.
func isFinal(c *command.Command, rep command.Reply) bool {
	once := c.Retries == 0 && !c.WasResent()
	return once && (rep.NotSent || rep.Outcome == command.Granted)
}

// Users returns the number of references. It is 0 for a round that may be reused at any time.
func (r *Round) Users() int { return int(r.users.Load()) }
