package model

import "fmt"

// fence is a state of the protocol that numbers locks: docs/dev/rules.md, rules 12 and 13. It has
// no time: a key may expire at any step, and the fence must be right all the same.
type fence struct {
	node    [nodes]fenceNode
	attempt [attempts]fenceAttempt
	// later reports that B started after A was done. (In a run in which one of two attempts starts
	// after the other is done, A is the name of the first.)
	later bool

	early, crashes, amnesias int8 // faults that may still happen
}

// names is the number of names. A lock is on one or both of them.
const names = 2

type fenceNode struct {
	counter [names]int8 // redlock:fence:<key>
	owner   [names]int8 // the attempt whose token the key has
	copy    [attempts]fenceCopy
	first   int8 // the attempt that was granted first here

	recovering, read bool // fenceRules.rereadAtOnce
}

// fenceCopy is what an attempt knows of a node, or will know when the reply arrives.
type fenceCopy struct {
	granted   int8 // the c of the grant, 0 if its SET did not execute, or was refused
	confirmed bool // the fence was written while the key was its own
}

type fenceAttempt struct {
	phase fencePhase
	ended bool // given up, too late, released or lost: it cannot be done any more, and is undone
	fence int8 // from the decision on
	names int8 // the set of names, a bit for each
}

type fencePhase int8

const (
	waiting fencePhase = iota // not started
	voting
	confirming // a fence was chosen
	done       // the caller has the lock
)

// over reports whether the lock is on a name.
func (a fenceAttempt) over(name int) bool { return a.names>>name&1 == 1 }

// confirmedBy reports whether the node counts for a: its key held a's token at an instant at which
// the counter was the fence, or more.
func (s *fence) confirmedBy(n, a int) bool {
	c := s.node[n].copy[a]
	return c.confirmed || c.granted == s.attempt[a].fence
}

// owns reports whether all keys of a on the node have its token.
func (s *fence) owns(a, n int) bool {
	for i := range names {
		if s.attempt[a].over(i) && s.node[n].owner[i] != int8(a+1) {
			return false
		}
	}
	return true
}

// free reports whether a node would grant a's SET NX.
func (s *fence) free(a, n int) bool {
	for i := range names {
		if s.attempt[a].over(i) && s.node[n].owner[i] != noOwner {
			return false
		}
	}
	return true
}

// drop deletes the keys that hold a's token.
func (n *fenceNode) drop(a int) bool {
	was := n.owner
	for i := range n.owner {
		if n.owner[i] == int8(a+1) {
			n.owner[i] = noOwner
		}
	}
	return n.owner != was
}

// fencePromise describes how two locks that are done break a promise, or returns "". It is called
// only for locks with a name in common.
type fencePromise func(s *fence, a, b int8) string

// distinct: no two locks have the same fence.
func distinct(_ *fence, a, b int8) string {
	if a == b {
		return fmt.Sprintf("A and B both have the fence %d", a)
	}
	return ""
}

// inTime: a lock that was requested after another was done has a larger fence.
func inTime(s *fence, a, b int8) string {
	if s.later && a >= b {
		return fmt.Sprintf("B started after A was done, and has %d after %d", b, a)
	}
	return ""
}

// inTurn: on a node that confirmed both, the lock that was granted first has the smaller fence.
func inTurn(s *fence, a, b int8) string {
	for n := range s.node {
		if s.confirmedBy(n, 0) && s.confirmedBy(n, 1) && (s.node[n].first == 1) != (a < b) {
			return fmt.Sprintf("A has %d and B %d, not in the order in which they had n%d", a, b, n+1)
		}
	}
	return ""
}

// keeps returns a function that reports a state's violation of these promises.
func keeps(promises ...fencePromise) func(fence) string {
	return func(s fence) string {
		a, b := s.attempt[0], s.attempt[1]
		if a.phase != done || b.phase != done || a.names&b.names == 0 {
			return ""
		}
		for _, broken := range promises {
			if how := broken(&s, a.fence, b.fence); how != "" {
				return how
			}
		}
		return ""
	}
}

// fenceCanonical sorts the nodes, and the contenders when neither started
// after the other was done.
func fenceCanonical(s fence) fence {
	k := sortNodes(&s.node, fenceKey)
	if s.later || s.attempt[0].phase == waiting || s.attempt[1].phase == waiting {
		return s
	}
	t := s
	t.attempt[0], t.attempt[1] = s.attempt[1], s.attempt[0]
	for i := range t.node {
		n := &t.node[i]
		n.copy[0], n.copy[1] = n.copy[1], n.copy[0]
		n.first = swapped(n.first)
		for k := range n.owner {
			n.owner[k] = swapped(n.owner[k])
		}
	}
	if l := sortNodes(&t.node, fenceKey); less(l, k, t.attempt[0].key(), s.attempt[0].key()) {
		return t
	}
	return s
}

func (a fenceAttempt) key() uint64 { return packed(int8(a.phase), bit(a.ended), a.fence, a.names) }

func fenceKey(n *fenceNode) uint64 {
	return packed(n.counter[0], n.counter[1], n.owner[0], n.owner[1],
		n.copy[0].granted, n.copy[1].granted, bit(n.copy[0].confirmed), bit(n.copy[1].confirmed),
		n.first, bit(n.recovering), bit(n.read))
}
