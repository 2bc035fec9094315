package model

// guard is a state of locks under the restart guard: docs/dev/rules.md, rules 2, 5, 8, 9 and 15 to
// 17. All clocks are honest and run alike, so every instant can be written as the ticks that are
// left until it. So time and the number of faults are unlimited.
//
// If one of two runs can do all that the other can, and sooner, only the former is searched,
// because it also breaks every promise that the other breaks:
//
//   - An attempt and a round start just before their first answer. With an earlier start their
//     validity would be shorter.
//   - A decision is made as soon as a majority has answered.
//   - A node that lost data is contacted at once, and again when its quarantine is over.
//   - A message that finds nothing to change is never sent.
//   - A repair of a lock that has ended never arrives: it could only refuse others. (That also
//     holds for the lock's SETs, but those are kept.)
type guard struct {
	node    [nodes]guardNode
	attempt [attempts]guardAttempt
}

type guardNode struct {
	marker marker
	wait   int8 // ticks that a quarantine still lasts
	owner  int8 // the attempt whose token the key has
	copy   [attempts]guardCopy
}

// marker is what a script that creates a key finds in redlock:guard.
type marker int8

const (
	missing     marker = iota // or of another incarnation
	quarantined               // until an instant
	ok
	begun // ok, but the quarantine is yet to be written: guardRules.twoCommands
)

// guardCopy is an attempt at a node.
type guardCopy struct {
	life      int8 // ticks until the key that it wrote last expires; of a deleted key, if a log may bring it back
	vote      int8 // ticks that this node's answer supports in a Resume; 1 in a round of extensions
	asked     bool // its SET has executed, or never will
	repaired  bool // in the round under way: shown in runs, and read by no rule
	straggler bool // had not granted when the attempt was won: guardRules.undoStragglers
}

type guardAttempt struct {
	phase guardPhase
	valid int8 // ticks until `until`
	round int8 // ticks that the answers to the round under way can be worth; 0 if there is none
	gone  bool // its undos are queued: rule 5
	claim bool // a claim was kept: guardRules.resumeReleased, resumeUndone
}

type guardPhase int8

const (
	idle     guardPhase = iota
	asking              // some node has granted
	held                // by a handle
	detached            // held by a claim
	ended
)

// holds reports whether a handle or a claim has the lock.
func (a guardAttempt) holds() bool {
	return a.valid > 0 && (a.phase == held || a.phase == detached)
}

// guardViolated is promise 1.
func guardViolated(s guard) string {
	if s.attempt[0].holds() && s.attempt[1].holds() {
		return "A and B both hold the lock"
	}
	return ""
}

// newRound starts a round, or none, and drops the answers to the one before.
func (s *guard) newRound(a int, worth int8) {
	s.attempt[a].round = worth
	for n := range s.node {
		c := &s.node[n].copy[a]
		c.vote, c.repaired = 0, false
	}
}

// guardCanonical sorts nodes and attempts.
func guardCanonical(s guard) guard {
	k := sortNodes(&s.node, guardKey)
	t := s
	t.attempt[0], t.attempt[1] = s.attempt[1], s.attempt[0]
	for i := range t.node {
		n := &t.node[i]
		n.copy[0], n.copy[1] = n.copy[1], n.copy[0]
		n.owner = swapped(n.owner)
	}
	if l := sortNodes(&t.node, guardKey); less(l, k, t.attempt[0].key(), s.attempt[0].key()) {
		return t
	}
	return s
}

func (a guardAttempt) key() uint64 {
	return packed(int8(a.phase), a.valid, a.round, bit(a.gone), bit(a.claim))
}

func guardKey(n *guardNode) uint64 {
	return packed(int8(n.marker), n.wait, n.owner)<<32 | n.copy[0].key()<<16 | n.copy[1].key()
}

func (c *guardCopy) key() uint64 {
	return packed(c.life, c.vote, bit(c.asked)+2*bit(c.straggler)+4*bit(c.repaired))
}
