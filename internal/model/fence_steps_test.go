package model

// fenceRules selects changes of the protocol. The zero value is the protocol that is shipped: each
// field removes one of its safeguards.
type fenceRules struct {
	noConfirm        bool // done with the maximum of the grants, whatever they were
	confirmAnywhere  bool // the fence is written to any majority of nodes
	confirmUnchecked bool // it is written where it was granted, whatever token the key has by then
	valuePerName     bool // each name of a lock has an independent counter (H98)
	confirmAbove     bool // a confirmation counts although the node's own grant is above the fence
	rereadAtOnce     bool // a node that lost its counters reads those of the others, and votes again
}

// fenceBounds limits the search.
type fenceBounds struct {
	spread   int8           // counters of all nodes are 0 to spread at the beginning: what earlier attempts left
	hint     int8           // a client's clock shows any of 0 to hint at each grant
	names    [attempts]int8 // the set of names of each lock, a bit for each; 0 is the first name
	early    int8           // keys that expire before their time
	crashes  int8           // nodes that lose their keys, but not their counters
	amnesias int8           // nodes that lose both
}

type fenceModel struct {
	fenceRules
	fenceBounds
}

func (m fenceModel) system() system[fence] {
	return system[fence]{initial: m.initial(), next: m.next, violated: keeps(distinct, inTime, inTurn), canonical: fenceCanonical}
}

// initial has every combination of counters, for two independent attempts, and for two attempts of
// which B starts when A is done.
func (m fenceModel) initial() (all []fence) {
	start := fence{early: m.early, crashes: m.crashes, amnesias: m.amnesias}
	for a := range start.attempt {
		start.attempt[a] = fenceAttempt{phase: voting, names: max(m.names[a], 1)}
	}
	counters := []*int8{}
	for n := range start.node {
		for i := range names {
			if start.attempt[0].over(i) || start.attempt[1].over(i) {
				counters = append(counters, &start.node[n].counter[i])
			}
		}
	}
	var fill func(k int)
	fill = func(k int) {
		if k == len(counters) {
			sequel := start
			sequel.attempt[1].phase = waiting
			all = append(all, start, sequel)
			return
		}
		for *counters[k] = 0; *counters[k] <= m.spread; *counters[k]++ {
			fill(k + 1)
		}
	}
	fill(0)
	return all
}

// next emits all possible steps. A message that changes nothing where it arrives (a SET that is
// refused, a confirmation that finds another token) is not a step: the run in which it is lost has
// the same future.
func (m fenceModel) next(s fence, emit func(step, fence)) {
	m.start(s, emit)
	for a := range attempts {
		m.decide(s, a, emit)
		m.complete(s, a, emit)
		m.end(s, a, emit)
		for n := range nodes {
			m.grant(s, a, n, emit)
			m.confirm(s, a, n, emit)
			m.vanish(s, a, n, emit)
		}
	}
	for n := range nodes {
		m.crash(s, n, emit)
		m.forget(s, n, emit)
		m.reread(s, n, emit)
	}
}

// start lets B begin when A is done.
func (m fenceModel) start(s fence, emit func(step, fence)) {
	if s.attempt[1].phase == waiting && s.attempt[0].phase == done {
		s.attempt[1].phase, s.later = voting, true
		emit(step{text: "%a starts", a: 1}, s)
	}
}

// grant is rules 12 and 13: the SET executes at any time after the start, also after the attempt
// has ended. It raises the counters in the same script. A SET executes once (rule 1).
func (m fenceModel) grant(s fence, a, n int, emit func(step, fence)) {
	at := &s.node[n]
	sent := s.attempt[a].phase != waiting
	if !sent || at.copy[a].granted != 0 || at.recovering || !s.free(a, n) {
		return
	}
	before := *at
	for hint := int8(0); hint <= m.hint; hint++ {
		*at = before
		c := m.bump(at, s.attempt[a], hint)
		if hint > 0 && c != hint {
			continue // the same as without it
		}
		at.copy[a].granted = c
		if at.first == noOwner {
			at.first = int8(a + 1)
		}
		for i := range names {
			if s.attempt[a].over(i) {
				at.owner[i] = int8(a + 1)
			}
		}
		emit(step{text: "%n grants %a with c = %v", a: int8(a), n: int8(n), v: c}, s)
	}
}

// bump returns c = max(counter+1, hint) over all names of a lock, and writes
// it to each of them (rule 13).
func (m fenceModel) bump(at *fenceNode, a fenceAttempt, hint int8) (c int8) {
	c = hint
	for i := range names {
		if a.over(i) {
			c = max(c, at.counter[i]+1)
		}
	}
	for i := range names {
		switch {
		case !a.over(i):
		case m.valuePerName:
			at.counter[i] = max(at.counter[i]+1, hint)
		default:
			at.counter[i] = c
		}
	}
	return c
}

// decide is rule 12: the fence is the maximum over a majority of the grants, whichever arrived
// first.
func (m fenceModel) decide(s fence, a int, emit func(step, fence)) {
	at := &s.attempt[a]
	if at.phase != voting || at.ended {
		return
	}
	for seen := range 1 << nodes {
		count, t := 0, int8(0)
		for n := range nodes {
			if c := s.node[n].copy[a].granted; seen>>n&1 == 1 && c != 0 {
				count, t = count+1, max(t, c)
			}
		}
		if count >= majority {
			at.phase, at.fence = confirming, t
			emit(step{text: "%a chooses the fence %v", a: int8(a), v: t}, s)
		}
	}
}

// confirm is rule 12: a node that granted writes max(c, t), in a script that does so only while the
// keys have a's token. The message may be late.
//
// It does not count if the node granted more than the fence: a's hold of that node may have begun
// after a hold of another attempt whose fence is as large.
func (m fenceModel) confirm(s fence, a, n int, emit func(step, fence)) {
	at, t := &s.node[n], s.attempt[a].fence
	c := at.copy[a].granted
	sent := s.attempt[a].phase >= confirming && (c != 0 && c <= t || c > t && m.confirmAbove || m.confirmAnywhere)
	heeded := s.owns(a, n) || m.confirmUnchecked || m.confirmAnywhere
	if !sent || at.copy[a].confirmed || !heeded || at.recovering {
		return
	}
	at.copy[a].confirmed = true
	for i := range names {
		if s.attempt[a].over(i) {
			at.counter[i] = max(at.counter[i], t)
		}
	}
	emit(step{text: "%n confirms %v for %a", a: int8(a), n: int8(n), v: t}, s)
}

// complete is rule 12: a majority granted with c = t or confirmed, and then
// validity is checked again.
func (m fenceModel) complete(s fence, a int, emit func(step, fence)) {
	at := &s.attempt[a]
	if at.phase != confirming || at.ended {
		return
	}
	count := 0
	for n := range nodes {
		if s.confirmedBy(n, a) {
			count++
		}
	}
	if count >= majority || m.noConfirm {
		at.phase = done
		emit(step{text: "%a is done with the fence %v", a: int8(a), v: at.fence}, s)
	}
}

// end is rules 2 and 5: an attempt is given up or too late, or a lock is released, lost or over.
// From then on its keys may be deleted.
func (m fenceModel) end(s fence, a int, emit func(step, fence)) {
	if at := &s.attempt[a]; at.phase != waiting && !at.ended {
		at.ended = true
		emit(step{text: "%a ends", a: int8(a)}, s)
	}
}

// vanish is rules 2 and 5: a's keys are undone, released or expire, which they do when its validity
// has ended. Before that it is a fault.
func (m fenceModel) vanish(s fence, a, n int, emit func(step, fence)) {
	if !s.attempt[a].ended {
		m.expireEarly(s, a, n, emit)
		return
	}
	if s.node[n].drop(a) {
		emit(step{text: "%a's key is gone from %n", a: int8(a), n: int8(n)}, s)
	}
}
