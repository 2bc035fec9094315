package verdict

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Vote is what a node's answer to an attempt counts for.
type Vote uint8

// The votes.
const (
	NotAwaited Vote = iota // the attempt was decided before the node answered
	Granted
	Refused
	Failed // the node failed, or did not answer in time
)

// Count returns how many of the votes are this one.
func Count(votes []Vote, one Vote) (n int) {
	for _, v := range votes {
		if v == one {
			n++
		}
	}
	return n
}

// Query decides which nodes are asked who has the names, after a refused attempt, and when their answers suffice. It
// waits for the nodes that refused, because they answered recently. It asks others, and waits for them, only while
// their answers can change the reason: a frozen node must not block it if the others are conclusive.
type Query struct {
	votes       []Vote // of the attempt
	need, names int
	asksOthers  bool // the nodes that were not awaited are asked too
	decideFault bool // their answers decide between a fault and a split vote
}

// NewQuery returns the query after an attempt for so many names. need votes are a majority.
func NewQuery(votes []Vote, need, names int) Query {
	q := Query{votes: votes, need: need, names: names}
	refused, others := Count(votes, Refused), Count(votes, NotAwaited)
	q.decideFault = quorum.Blocks(len(votes), Count(votes, Failed)+others)
	q.asksOthers = q.decideFault || refused < need && refused+others >= need
	return q
}

// Asks reports whether a node is asked. One that granted is not, because no holder has it.
func (q *Query) Asks(node int) bool {
	return q.votes[node] == Refused || q.asksOthers && q.votes[node] == NotAwaited
}

// Brief reports that a silent node is not worth the node timeout: it can only decide between a holder and a split vote, because
// some node has granted the names.
func (q *Query) Brief() bool { return q.asksOthers && !q.decideFault }

// Answer is what a node answered to a query. That of a node that is not asked has no keys.
type Answer struct {
	Known  bool // it was answered, or is no longer waited for
	Failed bool
	Keys   []command.KeyState // by name
}

// Suffice reports whether a token is on a quorum, or no pending answer can change the reason.
func (q *Query) Suffice(answers []Answer) bool {
	pending, failed, most := 0, Count(q.votes, Failed), 0
	keys := make([][]command.KeyState, len(answers))
	for i, a := range answers {
		switch {
		case !a.Known && q.votes[i] == Refused:
			return false
		case !a.Known:
			pending++
		case a.Failed && q.votes[i] == NotAwaited:
			failed++
		}
		keys[i] = a.Keys
	}
	for name := range q.names {
		for _, left := range TokensHolding(keys, name) {
			most = max(most, len(left))
		}
	}
	if most >= q.need {
		return true
	}
	spare := len(q.votes) - q.need
	decideFault := failed <= spare && failed+pending > spare
	return most+pending < q.need && !decideFault
}

// TokensHolding maps the tokens that hold a name to the remaining times on each node.
func TokensHolding(nodes [][]command.KeyState, name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for _, keys := range nodes {
		if len(keys) > name && !keys[name].Free() {
			held[keys[name].Value] = append(held[keys[name].Value], keys[name].TTL)
		}
	}
	return held
}
