package quorum

// Majority returns the least number of n nodes of which any two sets have a
// node in common: n/2+1. n is the number of nodes configured, never of those
// that can be reached (docs/hazards.md H9).
func Majority(n int) int { return n/2 + 1 }

// Decision is where a vote stands.
type Decision uint8

// The decisions. Open becomes one of the other two, once.
const (
	Open Decision = iota // the votes outstanding can still turn it either way
	Won                  // a majority granted
	Lost                 // so many did not grant that no majority can any more
)

// String names the decision.
func (d Decision) String() string {
	switch d {
	case Open:
		return "open"
	case Won:
		return "won"
	case Lost:
		return "lost"
	}
	return "invalid"
}

// Tally counts the votes of n nodes on one question. It is a plain value: it
// allocates nothing, a copy is a tally of its own, and whoever shares one
// guards it. Make it with [NewTally]; the zero value counts no vote.
//
// The decision is a function of the counts, and that it never changes follows
// from them: Won is q grants, Lost is n-q+1 others, counts only grow, and both
// together would be n+1 votes, of which no more than n are counted.
type Tally struct {
	nodes, granted, refused, failed int
}

// NewTally returns the empty tally of n nodes, n >= 1.
func NewTally(n int) Tally { return Tally{nodes: n} }

// Grant counts a node that granted, and returns the decision so far. A vote
// beyond the last node's is not counted, here and below: every node has one.
func (t *Tally) Grant() Decision { return t.count(&t.granted) }

// Refuse counts a node that answered no, and returns the decision so far.
func (t *Tally) Refuse() Decision { return t.count(&t.refused) }

// Fail counts a node that gave no vote, surely not applied or unknown, and
// returns the decision so far. It counts against a win like a refusal, but
// says nothing about who holds the lock.
func (t *Tally) Fail() Decision { return t.count(&t.failed) }

func (t *Tally) count(votes *int) Decision {
	if t.Outstanding() > 0 {
		*votes++
	}
	return t.Decision()
}

// Decision returns where the vote stands. It is taken by the first vote after
// which the outstanding ones can't change the outcome, so that nobody waits
// for the rest: for a loss that is the (n-q+1)-th vote that is no grant, which
// for an even n is one fewer than a majority.
func (t Tally) Decision() Decision {
	switch {
	case t.nodes == 0:
		return Open
	case t.granted >= t.Need():
		return Won
	case t.blocks(t.refused + t.failed):
		return Lost
	}
	return Open
}

// Granted returns how many nodes granted.
func (t Tally) Granted() int { return t.granted }

// Refused returns how many nodes refused.
func (t Tally) Refused() int { return t.refused }

// Failed returns how many nodes gave no vote.
func (t Tally) Failed() int { return t.failed }

// Outstanding returns how many nodes have not been counted yet.
func (t Tally) Outstanding() int { return t.nodes - t.granted - t.refused - t.failed }

// Need returns how many grants win: the majority of the nodes.
func (t Tally) Need() int { return Majority(t.nodes) }

// RefusedByQuorum reports whether so many nodes refused that no majority can
// grant, whatever all the others say. To an extension or a release, where a
// refusal says "not yours", it means that the lock is lost now.
func (t Tally) RefusedByQuorum() bool { return t.blocks(t.refused) }

// blocks reports whether k nodes leave less than a majority of others.
func (t Tally) blocks(k int) bool { return t.nodes-k < t.Need() }
