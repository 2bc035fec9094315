package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// All models here have the same nodes and contenders. Three nodes are the fewest of which one may
// fail. Exclusion and the order of fences concern pairs of attempts: a run with more of them breaks
// a promise between some two.
const (
	nodes    = 3
	majority = nodes/2 + 1
	attempts = 2
)

// nobody is the holder of a missing key. The holder a is written as 1 + a.
const noOwner = 0

// sortNodes sorts nodes by their keys, which hold all that a node's state holds, and returns the
// sorted keys. All nodes are alike, and no part of a state names one. So states that differ only in
// the order of nodes have the same future.
func sortNodes[N any](n *[nodes]N, key func(*N) uint64) [nodes]uint64 {
	k := [nodes]uint64{key(&n[0]), key(&n[1]), key(&n[2])}
	for _, i := range [...]int{0, 1, 0} {
		if k[i] > k[i+1] {
			k[i], k[i+1] = k[i+1], k[i]
			n[i], n[i+1] = n[i+1], n[i]
		}
	}
	return k
}

// less orders two writings of a state by their nodes, then by their attempts.
func less(k, l [nodes]uint64, a, b uint64) bool {
	if k != l {
		return slices.Compare(k[:], l[:]) < 0
	}
	return a < b
}

// packed appends small values to a number, 3 bits each.
func packed(values ...int8) (key uint64) {
	for _, v := range values {
		key = key<<3 | uint64(v&7)
	}
	return key
}

func bit(b bool) int8 {
	if b {
		return 1
	}
	return 0
}

// swapped exchanges the contenders in the name of a holder.
func swapped(holder int8) int8 {
	if holder == noOwner {
		return noOwner
	}
	return attempts + 1 - holder
}

// requireSymmetry compares the search with canonical to the search without it: both must reach the
// same states, up to renaming.
func requireSymmetry[S comparable](t *testing.T, sys system[S]) {
	t.Helper()
	sys.violated = func(S) string { return "" }
	plain := sys
	plain.canonical = nil
	whole, seen := search(plain)
	classes := make(map[S]bool)
	for i := range seen.len() {
		classes[sys.canonical(seen.at(i).state)] = true
	}
	reduced := explore(sys)
	t.Logf("%d states for %d", reduced.states, whole.states)
	require.Equal(t, len(classes), reduced.states)
	require.Less(t, 3*reduced.states, whole.states)
}

// Two jugs hold 3 and 5 litres, and 4 litres must be measured.
func TestTheSearchFindsAShortestRunAndAllStates(t *testing.T) {
	type jugs struct{ three, five int8 }
	wanted := int8(4)
	sys := system[jugs]{
		initial: []jugs{{}},
		next: func(s jugs, emit func(step, jugs)) {
			emit(step{text: "fill 3"}, jugs{3, s.five})
			emit(step{text: "fill 5"}, jugs{s.three, 5})
			emit(step{text: "empty 3"}, jugs{0, s.five})
			emit(step{text: "empty 5"}, jugs{s.three, 0})
			over := min(s.three, 5-s.five)
			emit(step{text: "pour 3 into 5"}, jugs{s.three - over, s.five + over})
			back := min(s.five, 3-s.three)
			emit(step{text: "pour 5 into 3"}, jugs{s.three + back, s.five - back})
		},
		violated: func(s jugs) string {
			if s.five == wanted {
				return "measured"
			}
			return ""
		},
	}
	require.Equal(t, []string{"fill 5", "pour 5 into 3", "empty 3", "pour 5 into 3", "fill 5", "pour 5 into 3"}, explore(sys).trace)
	wanted = 6
	found := explore(sys)
	require.Empty(t, found.violation)
	require.Equal(t, 16, found.states, "at least one jug is empty or full")
}
