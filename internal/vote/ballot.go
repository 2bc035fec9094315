package vote

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Ballot is the state of a round on one node.
type Ballot struct {
	cmd command.Command

	Counted      bool // in the tally, also as Unknown when the vote's time was over
	Replied      bool // the command was answered
	AnsweredLate bool // … after Unknown, or an error of an undo that is retried, was counted
	NotSent      bool
	Undone       bool // see command.Reply
	Outcome      command.Outcome
	Latency      time.Duration
	Err          error
	Fence        int64
}

// Failed reports whether a node was asked and failed, or did not answer in time.
func (b *Ballot) Failed() bool {
	return b.Counted && b.Outcome != command.Granted && b.Outcome != command.Refused
}

// leftNothing reports whether an answered acquire left nothing on the node.
func (b *Ballot) leftNothing() bool { return b.NotSent || b.Outcome == command.Refused }

// Results is the state of a round. It is valid only inside View.
type Results struct {
	Ballots   []Ballot             // by node
	KeyStates [][]command.KeyState // by node; nil unless the round reads keys
	Need      int                  // votes for a majority
}

// View calls f with the state of the round, which does not change meanwhile. f must be short and
// must not call the round.
func (r *Round) View(f func(Results)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.resultsLocked())
}

func (r *Round) resultsLocked() Results { return Results{r.ballots, r.keyStates, r.tally.Need()} }

// NodeName returns the name of a node.
func (r *Round) NodeName(node int) string { return r.group.Nodes[node].Name() }

// Decided reports whether the round was decided.
func (r *Round) Decided() bool { return r.result() != quorum.Open }

// Won reports whether a majority granted.
func (r *Round) Won() bool { return r.result() == quorum.Won }

// Lost reports whether it was decided that no majority can grant.
func (r *Round) Lost() bool { return r.result() == quorum.Lost }

// result returns the decision, which no later answer changes.
func (r *Round) result() quorum.Decision { return quorum.Decision(r.decision.Load()) } //nolint:gosec // one was stored

// RefusedByQuorum reports whether so many nodes refused, including late answers, that no majority
// can grant.
func (r *Round) RefusedByQuorum() bool {
	refused := r.count(func(b *Ballot) bool { return b.Outcome == command.Refused })
	return quorum.Blocks(len(r.ballots), refused)
}

// SurelyFree reports whether a majority released the token or, because it was skipped, never had
// it. Other clients can then have the name. A node that had the token and lost it does not count,
// because it is unknown how the hold ended there.
func (r *Round) SurelyFree() bool {
	return r.tally.Need() <= r.count(func(b *Ballot) bool {
		return b.Outcome == command.Granted || b.Outcome == command.Refused && b.NotSent
	})
}

// Confirmed reports whether a majority confirmed that it holds nothing of the token: it deleted the
// keys or had none. It is for rounds that undo.
func (r *Round) Confirmed() bool {
	return r.tally.Need() <= r.count(func(b *Ballot) bool {
		return b.Outcome == command.Granted || b.Outcome == command.Refused || b.Undone
	})
}

func (r *Round) count(is func(*Ballot) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots {
		if is(&r.ballots[i]) {
			n++
		}
	}
	return n
}

// AppendFences appends, by node, the count of each node that granted in time, and 0 for others.
func (r *Round) AppendFences(list []int64) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots {
		b, c := &r.ballots[i], int64(0)
		if b.Counted && !b.AnsweredLate && b.Outcome == command.Granted {
			c = b.Fence
		}
		list = append(list, c)
	}
	return list
}

// EmptyNodes returns the nodes that hold no keys of an acquire. answered reports that every node has
// answered, so nothing is in flight.
func (r *Round) EmptyNodes() (nodes quorum.Nodes, answered bool) {
	if r.pending.Load() > 0 {
		return 0, false
	}
	// Without mu: after the last answer nothing writes the ballots of an acquire.
	for i := range r.ballots {
		if r.ballots[i].leftNothing() {
			nodes = nodes.With(i)
		}
	}
	return nodes, true
}
