package vote

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Ballots are the answers of all nodes to one request, and what follows from them. The type is pure: its Round
// locks it, and says when the time of the vote is over.
type Ballots struct {
	ByNode    []Ballot
	KeyStates [][]command.KeyState // by node; nil unless the request reads keys

	tally    quorum.Tally
	decision quorum.Decision
}

// Ballot is the state of a round on one node.
type Ballot struct {
	cmd command.Command // for the Round alone: here it needs no allocation of its own

	Counted bool            // in the tally, as Vote
	Replied bool            // the command was answered
	Vote    command.Outcome // the first answer, or Unknown when the vote's time was over; once counted it never changes
	Last    command.Outcome // what is known now; the fields below belong to it
	NotSent bool
	Undone  bool // see command.Reply
	Latency time.Duration
	Err     error
	Fence   int64
}

// Rule states how many votes a decision waits for.
type Rule uint8

// The rules, from the earliest decision to the latest.
const (
	Earliest      Rule = iota // won or lost as early as possible
	LossAfterAll              // won as early as possible, lost after all votes
	FaultAfterAll             // like LossAfterAll, but lost as soon as enough nodes refused
	AfterAll                  // after all votes
)

func newBallots(byNode []Ballot) Ballots {
	return Ballots{ByNode: byNode, tally: quorum.NewTally(len(byNode))}
}

// record records a node's answer, and counts it unless the node was counted before. late reports that
// it changes no decision, because the node was counted or the vote decided.
func (s *Ballots) record(node int, rep command.Reply, took time.Duration) (late bool) {
	b := &s.ByNode[node]
	late = b.Counted || s.decision != quorum.Open
	b.Replied, b.Last, b.NotSent, b.Undone = true, rep.Outcome, rep.NotSent, rep.Undone
	b.Err, b.Latency, b.Fence = rep.Err, took, rep.Fence
	if s.KeyStates != nil {
		s.KeyStates[node] = rep.KeyStates
	}
	s.count(b)
	return late
}

// giveUp counts each node that has not answered as Unknown, and returns these nodes.
func (s *Ballots) giveUp(why error, took time.Duration) (silent quorum.Nodes) {
	for i := range s.ByNode {
		if b := &s.ByNode[i]; !b.Replied {
			b.Last, b.Err, b.Latency = command.Unknown, why, took
			s.count(b)
			silent = silent.With(i)
		}
	}
	return silent
}

// count counts a ballot once.
func (s *Ballots) count(b *Ballot) {
	if b.Counted {
		return
	}
	b.Counted, b.Vote = true, b.Last
	switch b.Vote {
	case command.Granted:
		s.tally.Grant()
	case command.Refused:
		s.tally.Refuse()
	default:
		s.tally.Fail()
	}
}

// decide makes the decision once the votes suffice by the rule, or by enough, which may be nil. It reports
// whether it has just made it.
func (s *Ballots) decide(rule Rule, enough func(*Ballots) bool) (news bool) {
	d := s.tally.Decision()
	early := rule == Earliest || rule == FaultAfterAll && quorum.Blocks(len(s.ByNode), s.tally.Refused()) || rule != AfterAll && d == quorum.Won
	switch {
	case s.decision != quorum.Open:
		return false
	case enough != nil && enough(s):
		d = quorum.Lost // no owner of such a round asks
	case d == quorum.Open || !early && s.tally.Outstanding() > 0:
		return false
	}
	s.decision = d
	return true
}

// tied reports whether nothing is decided although enough nodes for a quorum have voted, some with a grant
// and some with a refusal. With fewer votes no contender can win, and the node timeout detects a fault.
func (s *Ballots) tied() bool {
	granted, refused := s.tally.Granted(), s.tally.Refused()
	return s.decision == quorum.Open && granted > 0 && refused > 0 && granted+refused >= s.Need()
}

// Need returns how many votes are a majority.
func (s *Ballots) Need() int { return s.tally.Need() }

// RefusedByQuorum reports whether so many nodes refused, including late answers, that no majority
// can grant.
func (s *Ballots) RefusedByQuorum() bool {
	refused := s.number(func(b *Ballot) bool { return b.Last == command.Refused })
	return quorum.Blocks(len(s.ByNode), refused)
}

// SurelyFree reports whether a majority released the token or, because it was skipped, never had
// it. Other clients can then have the name. A node that had the token and lost it does not count,
// because it is unknown how the hold ended there.
func (s *Ballots) SurelyFree() bool {
	return s.Need() <= s.number(func(b *Ballot) bool {
		return b.Last == command.Granted || b.Last == command.Refused && b.NotSent
	})
}

// Confirmed reports whether a majority confirmed that it holds nothing of the token: it deleted the
// keys or had none. It is for rounds that undo.
func (s *Ballots) Confirmed() bool {
	return s.Need() <= s.number(func(b *Ballot) bool {
		return b.Last == command.Granted || b.Last == command.Refused || b.Undone
	})
}

func (s *Ballots) number(is func(*Ballot) bool) (n int) {
	for i := range s.ByNode {
		if is(&s.ByNode[i]) {
			n++
		}
	}
	return n
}

// AppendFences appends, by node, the count of each node that granted in time, and 0 for others.
func (s *Ballots) AppendFences(list []int64) []int64 {
	for i := range s.ByNode {
		b, c := &s.ByNode[i], int64(0)
		if b.Vote == command.Granted {
			c = b.Fence
		}
		list = append(list, c)
	}
	return list
}

// empty returns the nodes on which an acquire left nothing, once all have answered.
func (s *Ballots) empty() (nodes quorum.Nodes) {
	for i := range s.ByNode {
		if s.ByNode[i].leftNothing() {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// leftNothing reports whether an answered acquire left nothing on the node.
func (b *Ballot) leftNothing() bool { return b.NotSent || b.Last == command.Refused }

// Failed reports whether a node was asked and failed, or did not answer in time.
func (b *Ballot) Failed() bool {
	return b.Counted && b.Last != command.Granted && b.Last != command.Refused
}
