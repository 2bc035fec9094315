package model

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// long widens the bounds: minutes and a few GiB instead of seconds.
var long = flag.Bool("model.long", false, "search the protocols to wider bounds")

// bound returns the bound of a quick run, or of a long one.
func bound[T any](quick, wide T) T {
	if *long {
		return wide
	}
	return quick
}

// some is the first n rows under the race detector, and all of them without it.
func some[T any](n int, rows []T) []T {
	if underRace {
		return rows[:n]
	}
	return rows
}

// The sets of names are other than one name for both: the same two names, and one of two.
var (
	sameNames = [attempts]int8{3, 3}
	moreNames = [attempts]int8{3, 1}
)

// Each row has the faults of the rows above it that it names, and up to as many. A spread of 2 and
// a hint of 4 are general.
//
// The counters that earlier attempts left on two nodes are equal, one apart or farther apart. A
// hint is below, at or beyond every counter that two grants lead to.
var fencesHold = []struct {
	name        string
	quick, wide fenceBounds
}{
	{"no fault", fenceBounds{spread: 1, hint: 3}, fenceBounds{spread: 3, hint: 5}},
	{"early expiry", fenceBounds{hint: 2, early: 1}, fenceBounds{spread: 2, hint: 4, early: 2}},
	{"crash", fenceBounds{crashes: 2}, fenceBounds{spread: 2, hint: 4, crashes: 2}},
	{"early expiry and crash", fenceBounds{spread: 1, early: 1, crashes: 1}, fenceBounds{spread: 2, hint: 4, early: 1, crashes: 1}},
	{"early expiries and crash", fenceBounds{early: 2, crashes: 1}, fenceBounds{spread: 2, early: 2, crashes: 1}},
	{"two names", fenceBounds{names: sameNames, spread: 1}, fenceBounds{names: sameNames, spread: 1, hint: 3, early: 1, crashes: 1}},
	{"a name in common", fenceBounds{names: moreNames, early: 1}, fenceBounds{names: moreNames, spread: 1, hint: 3, early: 1, crashes: 1}},
}

// narrow keeps every kind of fault, with the fewest of each.
func narrow(b fenceBounds) fenceBounds {
	if underRace {
		b.spread, b.hint, b.early, b.crashes = 0, min(b.hint, 1), min(b.early, 1), min(b.crashes, 1)
	}
	return b
}

func TestFencesAreDistinctAndInOrderWhateverIsLostOrLate(t *testing.T) {
	for _, row := range some(1, fencesHold) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			found := explore(fenceModel{fenceBounds: bound(narrow(row.quick), row.wide)}.system())
			found.report(t)
			require.Empty(t, found.violation)
			// A model in which nothing happens keeps every promise.
			for _, text := range []string{"%n confirms %v for %a", "%a is done with the fence %v", "%a's key is gone from %n"} {
				require.NotZero(t, found.taken[text], text)
			}
		})
	}
}

func TestWithoutOneOfItsRulesTheFenceIsRefuted(t *testing.T) {
	type control struct {
		name   string
		rules  fenceRules
		bounds fenceBounds
		broken fencePromise
	}
	for _, control := range some(2, []control{
		{"the maximum without a write-back", fenceRules{noConfirm: true}, fenceBounds{}, distinct},
		{"the maximum without a write-back, in time", fenceRules{noConfirm: true}, fenceBounds{}, inTime},
		{"a write-back to any majority", fenceRules{confirmAnywhere: true}, fenceBounds{}, distinct},
		{"a write-back whoever holds the key", fenceRules{confirmUnchecked: true}, fenceBounds{early: 1}, distinct},
		{"a confirmation of less than was granted", fenceRules{confirmAbove: true}, fenceBounds{early: 1}, distinct},
		{"a value for each name", fenceRules{valuePerName: true}, fenceBounds{names: moreNames}, distinct},
		{"a value for each name, in time", fenceRules{valuePerName: true}, fenceBounds{names: moreNames}, inTime},
		{"counters that were forgotten", fenceRules{}, fenceBounds{amnesias: 1}, distinct},
		{"counters that are read from the others at once", fenceRules{rereadAtOnce: true}, fenceBounds{amnesias: 1}, distinct},
	}) {
		t.Run(control.name, func(t *testing.T) {
			t.Parallel()
			control.bounds.spread = 1
			sys := fenceModel{control.rules, control.bounds}.system()
			sys.violated = keeps(control.broken)
			found := explore(sys)
			found.report(t)
			require.NotEmpty(t, found.violation)
		})
	}
}

func TestSymmetryOfTheFenceLosesNoState(t *testing.T) {
	for _, bounds := range some(1, []fenceBounds{
		{crashes: 1},
		{names: moreNames},
	}) {
		requireSymmetry(t, fenceModel{fenceRules{rereadAtOnce: true}, narrow(bounds)}.system())
	}
}
