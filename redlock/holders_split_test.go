package redlock

import (
	"testing"
	"time"
)

// One node of five is down and one lacks the key, so exactly a quorum has it and an attempt is lost
// with one vote. This must not be taken for a split vote, whichever node answers first.
//
// Otherwise there would be 40 commands a second, and 150 if one of the three nodes is slow.
func TestABareQuorumIsDistinguishedFromASplitVoteWhileANodeIsDown(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]func(i int) bool{
		"all answer at once":           func(int) bool { return false },
		"the one that lacks it first":  func(i int) bool { return i != 3 },
		"the one that lacks it last":   func(i int) bool { return i == 3 },
		"one that has it is the last":  func(i int) bool { return i == 2 },
		"one that has it is the first": func(i int) bool { return i != 2 },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 5, func(fl *testbed) {
				fl.lateAt(4) // it stops
				a, b := fl.process().locker(), fl.process().locker()
				k := take(t, a, "a", time.Hour)
				fl.masters[3].Del("a")
				fl.masters[4].Stop()
				for i, m := range fl.masters {
					if late(i) {
						m.SetDelay(5 * time.Millisecond)
					}
				}
				waitsSeldom(fl, b, k, 10, "each poll asks four nodes, undoes on two, and asks all who it is")
			})
		})
	}
}
