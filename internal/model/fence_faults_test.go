package model

// expireEarly is a node's clock that was set forward, or a key deleted by hand: one key is deleted
// while the lock may be valid.
func (m fenceModel) expireEarly(s fence, a, n int, emit func(step, fence)) {
	if s.early == 0 {
		return
	}
	s.early--
	before := s.node[n]
	for i := range names {
		if s.node[n] = before; before.owner[i] == int8(a+1) {
			s.node[n].owner[i] = noOwner
			emit(step{text: "FAULT: %a's key expires early on %n", a: int8(a), n: int8(n)}, s)
		}
	}
}

// crash loses all keys of a node and keeps its counters.
func (m fenceModel) crash(s fence, n int, emit func(step, fence)) {
	if s.crashes > 0 && s.node[n].owner != [names]int8{} {
		s.crashes--
		s.node[n].owner = [names]int8{}
		emit(step{text: "FAULT: %n loses its keys", n: int8(n)}, s)
	}
}

// forget loses the counters too. Rules 12 and 13 do not help against that: promise 3 requires
// durable counters, or the restart guard.
func (m fenceModel) forget(s fence, n int, emit func(step, fence)) {
	if s.amnesias == 0 {
		return
	}
	s.amnesias--
	s.node[n].owner, s.node[n].counter = [names]int8{}, [names]int8{}
	s.node[n].recovering = m.rereadAtOnce
	emit(step{text: "FAULT: %n forgets keys and counters", n: int8(n)}, s)
}

// reread is a remedy that does not help: the node that lost its counters reads the counter of each
// other node, one by one.
func (m fenceModel) reread(s fence, n int, emit func(step, fence)) {
	at := &s.node[n]
	if !at.recovering {
		return
	}
	before := s
	for other := range nodes {
		if s = before; other == n || s.node[other].read {
			continue
		}
		s.node[other].read = true
		for i := range names {
			at.counter[i] = max(at.counter[i], s.node[other].counter[i])
		}
		m.recover(&s, n)
		emit(step{text: "%n reads a counter of %v", n: int8(n), v: int8(other + 1)}, s)
	}
}

// recover ends the recovery when all other nodes were read.
func (m fenceModel) recover(s *fence, n int) {
	for other := range nodes {
		if other != n && !s.node[other].read {
			return
		}
	}
	for i := range nodes {
		s.node[i].read, s.node[i].recovering = false, false
	}
}
