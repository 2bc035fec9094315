package vote

import (
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// Round is one request to all nodes and its vote. The owner sets the exported fields before it sends
// the round.
type Round struct {
	Request command.Request
	Names   []string
	Start   clock.Instant // read before the first send (docs/dev/hazards.md H5)
	Owner   any           // for the functions of the events
	Rule    Rule
	Enough  func(*Ballots) bool // ends the round before the rule does; may be nil
	Patient bool                // in a tie it waits for distant nodes: see armTieTimeout
	Timer   *timer.Timer        // ends the vote: one of its own, or of the owner, which may set it once the vote is won

	group  *Group
	events *Events
	wake   signal.Signal // see Wait

	ownTimer timer.Timer
	deadline clock.Instant // of the vote, by the node timeout

	mu       sync.Mutex // guards ballots, but for their commands; only Enough is called under it, and a timer set
	ballots  Ballots
	pending  atomic.Int32  // nodes without a final answer, and 1 until the decision was reported
	decision atomic.Uint32 // that of ballots; written under mu

	inline [3]Ballot // the ballots of up to three nodes
}

// Events is a set of functions that a round calls, on goroutines of the nodes or of the timers. They
// must not block. A nil function is not called.
type Events struct {
	// OnReply is called for each answer before it is counted, and returns the answer to count.
	OnReply func(r *Round, node int, rep command.Reply) command.Reply
	// OnDecision is called once, after the decision.
	OnDecision func(r *Round)
	// OnComplete is called once, when every command has been answered and OnDecision has returned.
	OnComplete func(r *Round)
}

// Send submits the commands. A node for which known returns true is skipped, and its answer is the one
// that known returns. Send calls no event, so its caller may hold a mutex that the events lock. It
// returns the answers of the nodes that were skipped or do not take their command. The caller has to
// settle them, without that mutex. They may decide the round.
func (r *Round) Send(known func(node int) (rep command.Reply, ok bool)) Unsent {
	return r.SendBefore(nil, nil, known)
}

// SendBefore is Send of releases with a round of acquires behind it, or nil. A node gets its command of that
// round right behind its command of r, in the same flush, and takes both or only that of r: then alone takes
// its place, unless it is nil. What is returned has the answers of both rounds.
func (r *Round) SendBefore(
	behind *Round, alone *command.Request, known func(node int) (rep command.Reply, ok bool),
) (unsent Unsent) {
	for i, n := range r.group.Nodes {
		c, next := &r.ballots.ByNode[i].cmd, (*command.Command)(nil)
		if behind != nil {
			next = &behind.ballots.ByNode[i].cmd
		}
		if known != nil {
			if rep, ok := known(i); ok {
				unsent = append(unsent, answer{c, rep})
				c, next = next, nil
			}
		}
		if c == nil {
			continue
		}
		err := n.Submit(c, next)
		if err != nil && next != nil {
			unsent = append(unsent, refusal(next, err))
			if alone != nil {
				c.Request = alone
			}
			err = n.Submit(c, nil)
		}
		if err != nil {
			unsent = append(unsent, refusal(c, err))
		}
	}
	return unsent
}

// Unsent are the answers to commands that Send did not submit.
type Unsent []answer

type answer struct {
	command *command.Command
	reply   command.Reply
}

// refusal is the answer to a command that its node does not take.
func refusal(c *command.Command, why error) answer {
	return answer{c, command.Reply{Outcome: command.Failed, NotSent: true, Err: why}}
}

// Settle counts the answers, and calls the events. It must be called without a mutex.
func (u Unsent) Settle() {
	for _, a := range u {
		a.command.Answer(a.reply)
	}
}

// Cancel cancels the commands that are still unsent.
func (r *Round) Cancel() {
	for i := range r.ballots.ByNode {
		r.ballots.ByNode[i].cmd.Cancel()
	}
}

// LeftNothing reports whether an acquire left nothing on a node and never will. It cancels an unsent
// command.
func (r *Round) LeftNothing(node int) (nothing bool) {
	r.View(func(s *Ballots) {
		b := &s.ByNode[node]
		if nothing = b.cmd.Cancel(); b.Replied {
			nothing = b.leftNothing()
		}
	})
	return nothing
}

// EmptyNodes returns the nodes that hold no keys of an acquire. answered reports that every node has
// answered, so nothing is in flight.
func (r *Round) EmptyNodes() (nodes quorum.Nodes, answered bool) {
	if r.pending.Load() > 0 {
		return 0, false
	}
	return r.ballots.empty(), true // without mu: after the last answer nothing writes the ballots of an acquire
}

// View calls f with the ballots, which do not change meanwhile and are not valid afterwards. f must be short
// and must not call the round.
func (r *Round) View(f func(*Ballots)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.ballots)
}

// NodeName returns the name of a node.
func (r *Round) NodeName(node int) string { return r.group.Nodes[node].Name() }

// Decided reports whether the round was decided.
func (r *Round) Decided() bool { return r.result() != quorum.Open }

// Won reports whether a majority granted.
func (r *Round) Won() bool { return r.result() == quorum.Won }

// Lost reports whether it was decided that no majority can grant.
func (r *Round) Lost() bool { return r.result() == quorum.Lost }

// result returns the decision, which no later answer changes. It takes no mutex.
func (r *Round) result() quorum.Decision { return quorum.Decision(r.decision.Load()) } //nolint:gosec // one was stored

// Wait returns true when the round is decided, or false if done is closed first. With a nil done it
// waits for the decision, which the node timeout bounds. Only one goroutine may wait.
func (r *Round) Wait(done <-chan struct{}) bool {
	for !r.Decided() {
		if done == nil {
			<-r.wake // a select takes three times as long
			continue
		}
		select {
		case <-r.wake:
		case <-done:
			return r.Decided()
		}
	}
	return true
}

// Woken returns the channel that receives a value at the decision.
func (r *Round) Woken() <-chan struct{} { return r.wake }

// ClearTimer ends a vote that the owner no longer waits for.
func (r *Round) ClearTimer() { r.group.Timers.Clear(r.Timer) }
