package model

// grant is rules 1, 2, 5 and 15: a SET executes at any time until an undo has, also after the
// attempt has ended.
func (m guardModel) grant(s guard, a, n int, emit func(step, guard)) {
	at, who := &s.node[n], &s.attempt[a]
	if at.copy[a].asked || at.owner != noOwner || !m.creates(at, a) {
		return
	}
	if who.phase == idle {
		*who = guardAttempt{phase: asking, valid: m.ttl}
	}
	at.owner, at.copy[a].asked, at.copy[a].life = int8(a+1), true, m.ttl
	m.win(&s, a)
	emit(step{text: "%n grants %a", a: int8(a), n: int8(n)}, s)
}

// win is rules 2 and 3: a majority has granted, and validity is not over. (An
// attempt whose validity is over has ended: see tick.)
func (m guardModel) win(s *guard, a int) {
	granted := 0
	for n := range s.node {
		granted += int(bit(s.node[n].copy[a].asked))
	}
	if s.attempt[a].phase != asking || granted < majority {
		return
	}
	s.attempt[a].phase = held
	s.attempt[a].claim = m.resumeReleased || m.resumeUndone
	for n := range s.node {
		c := &s.node[n].copy[a]
		c.straggler = m.undoStragglers && !c.asked
	}
}

// end is an attempt that is given up, or a lock that is released or lost.
func (m guardModel) end(s guard, a int, emit func(step, guard)) {
	if at := s.attempt[a]; at.phase == asking || at.phase == held {
		m.finish(&s, a)
		emit(step{text: "%a ends", a: int8(a)}, s)
	}
}

// finish ends a lock or an attempt, and queues its undos on all nodes: rule 5. Its answers under
// way do not count any more (rule 8).
func (m guardModel) finish(s *guard, a int) {
	at := &s.attempt[a]
	at.phase, at.valid, at.gone = ended, 0, true
	if !m.reviveEnded {
		s.newRound(a, 0)
	}
}

// undo deletes a's key, after all commands that were sent for it (rules 5 and 6). It may execute
// more than once: an unanswered undo is repeated.
func (m guardModel) undo(s guard, a, n int, emit func(step, guard)) {
	at, c := &s.node[n], &s.node[n].copy[a]
	mine := at.owner == int8(a+1)
	early := c.straggler && mine && s.attempt[a].phase == held
	if !early && (!s.attempt[a].gone || c.asked && !mine) {
		return
	}
	c.asked = true
	if mine {
		m.drop(at)
	}
	m.recycle(&s, a)
	emit(step{text: "%n undoes %a", a: int8(a), n: int8(n)}, s)
}

// recycle is rule 1: an attempt that has left nothing anywhere becomes one that has not started,
// with a new token. So the number of attempts is unlimited, and two at a time have left something.
func (m guardModel) recycle(s *guard, a int) {
	if s.attempt[a].phase != ended {
		return
	}
	left := int8(0)
	for n := range s.node {
		if s.node[n].owner == int8(a+1) || !s.node[n].copy[a].asked {
			return
		}
		left = max(left, s.node[n].copy[a].life)
	}
	if left > 0 {
		s.attempt[a].gone = !m.resumeUndone
		return // a log may bring it back
	}
	s.attempt[a] = guardAttempt{}
	for n := range s.node {
		s.node[n].copy[a] = guardCopy{}
	}
}

// drop deletes the key. A log may bring it back.
func (m guardModel) drop(at *guardNode) {
	if !m.logs && at.owner != noOwner {
		at.copy[at.owner-1].life = 0
	}
	at.owner = noOwner
}

// extend is an extension that executes: it finds the token, lengthens the TTL, and counts where the
// marker is ok (rule 8). It is the answer to the round under way, or the first one to another
// round.
//
// After an undo it finds nothing. The extension of a claim is a late one.
func (m guardModel) extend(s guard, a, n int, emit func(step, guard)) {
	at, who := &s.node[n], s.attempt[a]
	if at.owner != int8(a+1) || who.phase == asking {
		return
	}
	at.copy[a].life = m.ttl
	switch {
	case who.phase == held && m.counts(at):
		m.count(s, a, n, emit)
		s.newRound(a, m.ttl)
		m.count(s, a, n, emit)
	case who.phase == ended && m.reviveEnded && m.counts(at):
		m.count(s, a, n, emit)
	case who.phase == held || who.phase == detached:
		emit(step{text: "%n extends %a, and does not count", a: int8(a), n: int8(n)}, s)
	}
}

// count is rules 8 and 9: the answer counts, also from a node that was repaired while the round was
// under way. With a majority of answers `until` moves, counted from before the round.
func (m guardModel) count(s guard, a, n int, emit func(step, guard)) {
	at := &s.attempt[a]
	if c := &s.node[n].copy[a]; at.round > 0 && c.vote == 0 {
		text := "%n extends %a"
		if c.repaired {
			text = extendsRepaired
		}
		c.vote = 1
		if s.votes(a) >= majority {
			at.phase, at.valid = held, max(at.valid, at.round)
			s.newRound(a, 0)
		}
		emit(step{text: text, a: int8(a), n: int8(n)}, s)
	}
}

// extendsRepaired is the step of an extension that counts from a node that was
// repaired while its round was under way.
const extendsRepaired = "%n extends %a, repaired in that round"

// votes counts the nodes that answered a round.
func (s *guard) votes(a int) (count int) {
	for n := range s.node {
		count += int(min(1, s.node[n].copy[a].vote))
	}
	return count
}

// repair is rule 9: it gives a node that lost its copy another one. Its own answer is not a vote.
//
// An earlier round requests it, and it may execute while the next round is under way: that round's
// command may be sent again after it (NOSCRIPT, MOVED).
func (m guardModel) repair(s guard, a, n int, emit func(step, guard)) {
	at, c := &s.node[n], &s.node[n].copy[a]
	valid := s.attempt[a].phase == held || s.attempt[a].phase == detached
	if !m.repairs || !valid || at.owner != noOwner || !m.creates(at, a) && !m.repairAnywhere {
		return
	}
	at.owner, c.life, c.repaired = int8(a+1), m.ttl, s.attempt[a].round > 0
	emit(step{text: "%n is repaired by %a", a: int8(a), n: int8(n)}, s)
}

// detach ends a handle without a release.
func (m guardModel) detach(s guard, a int, emit func(step, guard)) {
	if m.claims && s.attempt[a].phase == held {
		s.attempt[a].phase = detached
		s.newRound(a, 0)
		emit(step{text: "%a is detached", a: int8(a)}, s)
	}
}

// resume is an answer to a Resume of a claim: send + PTTL, from a node that has the token and whose
// marker is ok. It belongs to the round under way, or is the first one of another.
func (m guardModel) resume(s guard, a, n int, emit func(step, guard)) {
	if !m.resumable(s.attempt[a]) || s.node[n].owner != int8(a+1) || !m.counts(&s.node[n]) {
		return
	}
	m.support(s, a, n, emit)
	s.newRound(a, m.ttl)
	m.support(s, a, n, emit)
}

func (m guardModel) resumable(a guardAttempt) bool {
	return a.phase == detached || a.phase == ended && a.claim && (m.resumeReleased || !a.gone)
}

// support computes the validity again. With two of three answers it is the smaller one, which is
// the second largest of all if those two are the largest.
func (m guardModel) support(s guard, a, n int, emit func(step, guard)) {
	at, c := &s.attempt[a], &s.node[n].copy[a]
	since := m.ttl - at.round
	if at.round == 0 || c.vote > 0 || c.life <= since {
		return
	}
	c.vote = c.life - since
	if s.votes(a) >= majority {
		least := c.vote
		for i := range s.node {
			if v := s.node[i].copy[a].vote; v > 0 {
				least = min(least, v)
			}
		}
		at.phase, at.valid = held, least
		s.newRound(a, 0)
	}
	emit(step{text: "%n still has %a, for %v", a: int8(a), n: int8(n), v: c.life}, s)
}
