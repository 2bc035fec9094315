package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var guardHolds = []struct {
	name        string
	quick, wide guardBounds
	texts       []string // the steps that must have happened
}{
	{
		"acquire, extend and release",
		guardBounds{ttl: 2},
		guardBounds{ttl: 4},
		[]string{"%n extends %a", "%n undoes %a", "FAULT: %n forgets all", "the operator admits all nodes"},
	},
	{
		"repair",
		guardBounds{ttl: 2, repairs: true},
		guardBounds{ttl: 3, repairs: true},
		[]string{"%n is repaired by %a"},
	},
	{
		"detach and resume",
		guardBounds{ttl: 2, claims: true},
		guardBounds{ttl: 3, claims: true},
		[]string{"%a is detached", "%n still has %a, for %v"},
	},
	{
		"older data",
		guardBounds{ttl: 1, logs: true},
		guardBounds{ttl: 3, logs: true, repairs: true},
		[]string{"FAULT: %n restarts with the key of %a"},
	},
	{
		"all of it",
		guardBounds{ttl: 1, repairs: true, claims: true, logs: true},
		guardBounds{ttl: 2, repairs: true, claims: true, logs: true},
		[]string{"%n is repaired by %a", "%n still has %a, for %v", "FAULT: %n restarts with the key of %a"},
	},
}

func TestUnderTheGuardNoTwoLocksAreValidWhateverIsForgotten(t *testing.T) {
	for _, row := range some(1, guardHolds) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if underRace {
				row.quick.ttl = 1
			}
			found := explore(guardModel{guardBounds: bound(row.quick, row.wide)}.system())
			found.report(t)
			require.Empty(t, found.violation)
			for _, text := range row.texts {
				require.NotZero(t, found.taken[text], text)
			}
		})
	}
}

var (
	plain  = guardBounds{ttl: 2}
	repair = guardBounds{ttl: 2, repairs: true}
	claims = guardBounds{ttl: 2, claims: true}
	logs   = guardBounds{ttl: 1, claims: true, logs: true}
)

func TestWithoutOneOfItsRulesTheGuardIsRefuted(t *testing.T) {
	type control struct {
		name   string
		rules  guardRules
		bounds guardBounds
		steps  int // of a shortest run that refutes it
	}
	for _, control := range some(7, []control{
		{"no guard", guardRules{unguarded: [attempts]bool{true, true}}, plain, 5},
		{"a client without it", guardRules{unguarded: [attempts]bool{false, true}}, plain, 6},
		{"marker and quarantine by two commands", guardRules{twoCommands: true}, plain, 7},
		{"marker and quarantine in two keys", guardRules{twoKeys: true}, plain, 7},
		{"an admission that ends a quarantine", guardRules{admitEnds: true}, plain, 7},
		{"an admission beside marked nodes", guardRules{admitBeside: true}, plain, 7},
		{"older data under a marker that is ok", guardRules{sameRun: true}, logs, 6},
		{"repairs and extensions in quarantine", guardRules{repairAnywhere: true, countAnywhere: true}, repair, 11},
		{"an undo of a valid handle's key", guardRules{undoStragglers: true}, plain, 11},
		{"an ended handle that is revived", guardRules{reviveEnded: true}, plain, 9},
		{"a claim that is being undone", guardRules{resumeReleased: true}, claims, 9},
		{"a released claim that a log brought back", guardRules{resumeUndone: true, countAnywhere: true}, logs, 13},
	}) {
		t.Run(control.name, func(t *testing.T) {
			t.Parallel()
			found := explore(guardModel{control.rules, control.bounds}.system())
			found.report(t)
			require.NotEmpty(t, found.violation)
			require.Len(t, found.trace, control.steps)
		})
	}
}

// Of two safeguards either is enough, so one can be missing.
func TestQuarantineIsKeptTwice(t *testing.T) {
	type half struct {
		name   string
		rules  guardRules
		bounds guardBounds
	}
	for _, half := range some(2, []half{
		{"repairs in quarantine, where extensions do not count", guardRules{repairAnywhere: true}, guardBounds{repairs: true}},
		{"extensions in quarantine, where repairs are refused", guardRules{countAnywhere: true}, guardBounds{repairs: true}},
		{"a released claim that a log brought back, into quarantine", guardRules{resumeUndone: true}, guardBounds{claims: true, logs: true}},
	}) {
		t.Run(half.name, func(t *testing.T) {
			t.Parallel()
			half.bounds.ttl = bound[int8](1, 2)
			found := explore(guardModel{half.rules, half.bounds}.system())
			found.report(t)
			require.Empty(t, found.violation)
		})
	}
}

// The shortest run that breaks exclusion without the quarantine has an extension that counts from a
// node that was repaired while its round was under way. So the searches above visit such
// extensions.
func TestAnExtensionCountsFromANodeThatWasRepairedInItsRound(t *testing.T) {
	found := explore(guardModel{guardRules{repairAnywhere: true, countAnywhere: true}, repair}.system())
	found.report(t)
	require.Contains(t, found.trace, step{text: extendsRepaired, a: 0, n: 2}.String())
}

func TestSymmetryOfTheGuardLosesNoState(t *testing.T) {
	requireSymmetry(t, guardModel{guardBounds: guardBounds{ttl: 1, repairs: true, logs: !underRace}}.system())
	requireSymmetry(t, guardModel{guardRules{unguarded: [attempts]bool{false, true}}, guardBounds{ttl: 1, claims: !underRace}}.system())
}
