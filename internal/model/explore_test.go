package model

import (
	"hash/maphash"
	"strings"
	"testing"
	"time"
)

// system is a protocol of which every run is searched. Its states are plain values: equal states
// have the same future.
type system[S comparable] struct {
	initial []S
	// next emits every state that one step leads to, from any state.
	next func(s S, emit func(step, S))
	// violated describes what is wrong with a state, or returns "".
	violated func(s S) string
	// canonical returns one state for all that differ only in the names of
	// nodes and attempts. It must commute with next: renaming and stepping give
	// what stepping and renaming give. Nil: no symmetry is used.
	canonical func(s S) S
}

// outcome is the result of a search.
type outcome struct {
	states    int            // different ones, after symmetry
	depth     int            // steps to the farthest state
	taken     map[string]int // by the text of a step, how many states it was the first to reach
	violation string         // "" if no number of steps leads to one
	trace     []string       // a shortest run to the violation
	took      time.Duration
}

// explore visits every reachable state in order of its distance, until one is violated. The order
// makes the trace a shortest one. explore keeps whole states, not their hashes, so that no
// collision can hide one.
func explore[S comparable](sys system[S]) outcome {
	found, _ := search(sys)
	return found
}

func search[S comparable](sys system[S]) (outcome, *visited[S]) {
	if sys.canonical == nil {
		sys.canonical = func(s S) S { return s }
	}
	began := time.Now()
	found := outcome{taken: make(map[string]int)}
	seen := newVisited[S]()
	for _, s := range sys.initial {
		seen.add(sys.canonical(s), 0)
	}
	layer := seen.len() // the states before it have no larger distance than found.depth
	for i := 0; i < seen.len(); i++ {
		if i == layer {
			found.depth, layer = found.depth+1, seen.len()
		}
		s := seen.at(i).state
		if found.violation = sys.violated(s); found.violation != "" {
			found.trace = retrace(sys, seen.path(i))
			break
		}
		sys.next(s, func(by step, t S) {
			if t != s && seen.add(sys.canonical(t), i+1) {
				found.taken[by.text]++
			}
		})
	}
	found.states, found.took = seen.len(), time.Since(began)
	return found, seen
}

// retrace repeats a path of canonical states, and keeps the names of nodes and attempts as they
// were at its beginning.
func retrace[S comparable](sys system[S], path []S) []string {
	var trace []string
	s := path[0]
	for _, want := range path[1:] {
		var how step
		var to S
		matched := false
		sys.next(s, func(by step, t S) {
			if !matched && sys.canonical(t) == want {
				how, to, matched = by, t, true
			}
		})
		if !matched {
			panic("model: canonical does not commute with next")
		}
		trace = append(trace, how.String())
		s = to
	}
	return trace
}

// step describes an event. In its text %a is the attempt, %n the node and %v a value.
type step struct {
	text    string
	a, n, v int8
}

func (s step) String() string {
	return strings.NewReplacer(
		"%a", string(rune('A'+s.a)),
		"%n", "n"+string(rune('1'+s.n)),
		"%v", string(rune('0'+s.v)),
	).Replace(s.text)
}

// visited is the set of states seen, in the order in which they were added. It is a hash table of
// open addressing over numbers of states: about 8 bytes for a state beside the state itself.
type visited[S comparable] struct {
	seed   maphash.Seed
	slots  []uint32 // 1 + the number of a state, 0 for free; a power of two of them
	blocks [][]visit[S]
	n      int
}

// visit is a state and its predecessor.
type visit[S comparable] struct {
	state S
	from  uint32 // 1 + the number of the state before it, 0 for an initial one
}

// blockLen is small beside what is stored, and large beside a slice's header.
const blockLen = 1 << 14

func newVisited[S comparable]() *visited[S] {
	return &visited[S]{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<10)}
}

func (v *visited[S]) len() int { return v.n }

func (v *visited[S]) at(i int) *visit[S] { return &v.blocks[i/blockLen][i%blockLen] }

// add reports whether s is new.
func (v *visited[S]) add(s S, from int) bool {
	slot := v.slot(s)
	if v.slots[slot] != 0 {
		return false
	}
	if v.n%blockLen == 0 {
		v.blocks = append(v.blocks, make([]visit[S], blockLen))
	}
	v.n++
	*v.at(v.n - 1) = visit[S]{state: s, from: uint32(from)}
	v.slots[slot] = uint32(v.n)
	if 2*v.n > len(v.slots) {
		v.grow()
	}
	return true
}

// slot returns the slot of s, or the free slot for it.
func (v *visited[S]) slot(s S) uint64 {
	mask := uint64(len(v.slots) - 1)
	slot := maphash.Comparable(v.seed, s) & mask
	for v.slots[slot] != 0 && v.at(int(v.slots[slot])-1).state != s {
		slot = (slot + 1) & mask
	}
	return slot
}

func (v *visited[S]) grow() {
	v.slots = make([]uint32, 2*len(v.slots))
	for i := range v.n {
		v.slots[v.slot(v.at(i).state)] = uint32(i + 1)
	}
}

// path returns the states that lead to the i-th state, which is the last.
func (v *visited[S]) path(i int) []S {
	var back []S
	for at := i + 1; at != 0; at = int(v.at(at - 1).from) {
		back = append(back, v.at(at-1).state)
	}
	path := make([]S, 0, len(back))
	for k := range back {
		path = append(path, back[len(back)-1-k])
	}
	return path
}

// report logs the size of a search, and its trace if it has one.
func (o outcome) report(t *testing.T) {
	t.Helper()
	t.Logf("%d states to depth %d in %v", o.states, o.depth, o.took.Round(time.Millisecond))
	if o.violation != "" {
		t.Logf("%s, after\n  %s", o.violation, strings.Join(o.trace, "\n  "))
	}
}
