package model

// guardRules selects changes of the protocol. The zero value is the protocol that is shipped: each
// field removes one of its safeguards.
type guardRules struct {
	unguarded      [attempts]bool // clients that ignore the marker (H112)
	twoCommands    bool           // the quarantine is written by a command after the marker's
	twoKeys        bool           // it is kept in a key of its own
	admitEnds      bool           // Admit ends quarantines
	admitBeside    bool           // Admit admits a node without a marker beside others
	repairAnywhere bool           // a repair does not read the marker (H115)
	countAnywhere  bool           // an extension or a Resume counts without an ok in the marker
	undoStragglers bool           // a node that had not granted when the lock was won is undone at once (H113)
	reviveEnded    bool           // a late majority of extensions revives a handle that ended (H114)
	resumeReleased bool           // a claim can be resumed while it is being undone (H97)
	resumeUndone   bool           // a claim can be resumed when it has been undone, on all nodes (H97)
	sameRun        bool           // older data comes back under a marker that is ok (H116, H50)
}

// guardBounds limits the search.
type guardBounds struct {
	ttl     int8 // of every lock, in ticks: maxTTL
	repairs bool // WithRepair
	claims  bool // Detach and Resume
	logs    bool // restarts bring older data back, instead of none
}

type guardModel struct {
	guardRules
	guardBounds
}

func (m guardModel) system() system[guard] {
	sys := system[guard]{initial: []guard{{}}, next: m.next, violated: guardViolated, canonical: guardCanonical}
	if m.unguarded[0] != m.unguarded[1] {
		sys.canonical = func(s guard) guard {
			sortNodes(&s.node, guardKey)
			return s
		}
	}
	return sys
}

// next emits all possible steps.
func (m guardModel) next(s guard, emit func(step, guard)) {
	m.tick(s, emit)
	m.admit(s, emit)
	for a := range attempts {
		m.end(s, a, emit)
		m.detach(s, a, emit)
		for n := range nodes {
			m.grant(s, a, n, emit)
			m.undo(s, a, n, emit)
			m.extend(s, a, n, emit)
			m.repair(s, a, n, emit)
			m.resume(s, a, n, emit)
		}
	}
	for n := range nodes {
		m.contact(s, n, emit)
		m.flush(s, n, emit)
		m.restart(s, n, emit)
		m.mislay(s, n, emit)
	}
}

// creates is rule 15: a script that creates a key reads ok in the marker.
func (m guardModel) creates(at *guardNode, a int) bool {
	return at.marker == ok || at.marker == begun || m.unguarded[a]
}

// counts is rule 8, for extensions and for Resume.
func (m guardModel) counts(at *guardNode) bool {
	return at.marker == ok || at.marker == begun || m.countAnywhere
}

// distrust is rule 16 on a marker that is missing or another incarnation's: the node is quarantined
// from its first contact on.
func (m guardModel) distrust(at *guardNode) {
	if at.marker, at.wait = quarantined, m.ttl; m.admitBeside || m.twoCommands {
		at.marker, at.wait = missing, 0 // the first contact is a step of its own
	}
}

// contact is the same script, where it is a step of its own.
func (m guardModel) contact(s guard, n int, emit func(step, guard)) {
	switch at := &s.node[n]; {
	case at.marker == missing && m.twoCommands:
		at.marker = begun
		emit(step{text: "%n gets its marker, and no quarantine yet", n: int8(n)}, s)
	case at.marker == missing, at.marker == begun:
		at.marker, at.wait = quarantined, m.ttl
		emit(step{text: "%n is quarantined", n: int8(n)}, s)
	}
}

// admit is rule 17: the operator confirms that no client runs, and all nodes are admitted at once.
// None of them has a marker or a lock.
func (m guardModel) admit(s guard, emit func(step, guard)) {
	m.admitWrongly(s, emit)
	for a := range s.attempt {
		if s.attempt[a].phase != idle {
			return
		}
	}
	for n := range s.node {
		if s.node[n].marker != missing {
			return
		}
		s.node[n].marker = ok
	}
	emit(step{text: "the operator admits all nodes"}, s)
}

// admitWrongly admits nodes that Admit must refuse, whatever the operator confirms.
func (m guardModel) admitWrongly(s guard, emit func(step, guard)) {
	before := s
	for n := range s.node {
		s = before
		at := &s.node[n]
		if m.admitEnds && at.marker == quarantined || m.admitBeside && at.marker == missing && at.owner == noOwner {
			at.marker, at.wait = ok, 0
			emit(step{text: "the operator admits %n", n: int8(n)}, s)
		}
	}
}

// flush is FLUSHALL, or a restart without persistence: all data is lost. If logs are kept, a
// restart may bring back the earlier data.
func (m guardModel) flush(s guard, n int, emit func(step, guard)) {
	at := &s.node[n]
	m.drop(at)
	m.distrust(at)
	emit(step{text: "FAULT: %n forgets all", n: int8(n)}, s)
}

// restart is a crash with a log that was behind, or the promotion of a replica. The new incarnation
// has data of any age: a deleted key may be back, and a written one may be missing.
func (m guardModel) restart(s guard, n int, emit func(step, guard)) {
	if !m.logs {
		return
	}
	at := &s.node[n]
	if m.distrust(at); m.sameRun {
		at.marker, at.wait = ok, 0
	}
	at.owner = noOwner
	emit(step{text: "FAULT: %n restarts, and its key is lost", n: int8(n)}, s)
	for a := range attempts {
		if at.copy[a].life > 0 {
			at.owner = int8(a + 1)
			emit(step{text: "FAULT: %n restarts with the key of %a", a: int8(a), n: int8(n)}, s)
		}
	}
}

// mislay is the loss of one key of the guard, by eviction or by hand.
func (m guardModel) mislay(s guard, n int, emit func(step, guard)) {
	at := &s.node[n]
	if m.twoKeys && at.marker == quarantined {
		at.marker, at.wait = ok, 0
	} else {
		m.distrust(at)
	}
	emit(step{text: "FAULT: %n loses a key of the guard", n: int8(n)}, s)
}

// tick lets time pass everywhere. A handle ends with its validity, a key is deleted at its TTL, and
// a node may vote after its quarantine.
func (m guardModel) tick(s guard, emit func(step, guard)) {
	for a := range s.attempt {
		at := &s.attempt[a]
		at.valid, at.round = max(0, at.valid-1), max(0, at.round-1)
		if at.valid == 0 && (at.phase == asking || at.phase == held) {
			m.finish(&s, a)
		}
		if at.round == 0 {
			s.newRound(a, 0)
		}
	}
	for n := range s.node {
		m.age(&s, &s.node[n])
	}
	for a := range s.attempt {
		m.recycle(&s, a)
	}
	emit(step{text: "a tick"}, s)
}

func (m guardModel) age(s *guard, at *guardNode) {
	if at.wait = max(0, at.wait-1); at.marker == quarantined && at.wait == 0 {
		at.marker = ok
	}
	for a := range at.copy {
		c := &at.copy[a]
		if c.life = max(0, c.life-1); c.life == 0 && at.owner == int8(a+1) {
			at.owner = noOwner
		}
		if m.resumable(s.attempt[a]) {
			c.vote = max(0, c.vote-1) // an instant, in a Resume
		}
	}
}
