package quorum

// Majority returns n/2+1, the smallest number of n nodes of which any two sets have a node in
// common. n is the number of configured nodes, not of reachable ones (docs/dev/hazards.md H9).
func Majority(n int) int { return n/2 + 1 }

// Blocks reports whether so many of n nodes are against that the others are no majority.
func Blocks(n, against int) bool { return n-against < Majority(n) }

// Decision is the state of a vote.
type Decision uint8

// The decisions. Open changes to one of the other two, once.
const (
	Open Decision = iota // the outstanding votes can still decide it either way
	Won                  // a majority granted
	Lost                 // so many nodes did not grant that no majority can
)

// Tally counts the votes of n nodes in one round. It is a plain value without allocations. A copy
// is an independent tally. Concurrent users must synchronize. Make a Tally with [NewTally]; the
// zero value counts no vote.
//
// The decision depends only on the counts and never changes. With q the majority, Won needs q
// grants and Lost needs n-q+1 other votes. Counts only grow, and both together would be n+1 votes.
type Tally struct {
	nodes, granted, refused, failed uint8
}

// NewTally returns the empty tally of n nodes, 1 to MaxNodes.
func NewTally(n int) Tally { return Tally{nodes: uint8(n)} } //nolint:gosec // bounded

// Grant counts a node that granted. Like Refuse and Fail, it ignores votes beyond the n-th.
func (t *Tally) Grant() { t.count(&t.granted) }

// Refuse counts a node that refused.
func (t *Tally) Refuse() { t.count(&t.refused) }

// Fail counts a node that did not vote, because it failed or its outcome is unknown. It counts
// against a win like a refusal, but shows nothing about the holder.
func (t *Tally) Fail() { t.count(&t.failed) }

func (t *Tally) count(votes *uint8) {
	if t.Outstanding() > 0 {
		*votes++
	}
}

// Decision returns the decision so far. It is made by the first vote after which the outstanding
// ones cannot change the outcome, so the caller does not wait for them. A loss is decided by the
// (n-q+1)-th vote other than a grant. For an even n that is one fewer than a majority.
func (t Tally) Decision() Decision {
	switch {
	case t.nodes == 0:
		return Open
	case t.Granted() >= t.Need():
		return Won
	case Blocks(int(t.nodes), t.Refused()+t.Failed()):
		return Lost
	}
	return Open
}

// Granted returns how many nodes granted.
func (t Tally) Granted() int { return int(t.granted) }

// Refused returns how many nodes refused.
func (t Tally) Refused() int { return int(t.refused) }

// Failed returns how many nodes did not vote.
func (t Tally) Failed() int { return int(t.failed) }

// Outstanding returns how many nodes have not been counted yet.
func (t Tally) Outstanding() int { return int(t.nodes - t.granted - t.refused - t.failed) }

// Need returns how many grants win: the majority of the nodes.
func (t Tally) Need() int { return Majority(int(t.nodes)) }
