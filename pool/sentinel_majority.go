package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// answer is the last answer of one Sentinel.
type answer struct {
	sentinel string        // its address
	master   string        // the master that it named; empty if it knows none, or has not answered yet
	asked    clock.Instant // the instant before the query; its age counts from here
	err      error         // why it could not be queried since
	answered bool          // it has answered, or failed
	peers    int           // the number of other Sentinels that it knew
}

// majorityMaster returns the master that need of the Sentinels name, and the instant until which
// that counts: the need-th latest answer plus fresh. It is pure: it reads no clock.
func majorityMaster(all []answer, need int, fresh time.Duration) (master string, until clock.Instant, ok bool) {
	// An answer that was followed by a failure still counts: an unreachable Sentinel has not
	// withdrawn it. Its age bounds it.
	asked := make(map[string][]clock.Instant)
	for _, n := range all {
		if n.master != "" {
			asked[n.master] = append(asked[n.master], n.asked)
		}
	}
	for address, when := range asked {
		// Fewer Sentinels than a majority name this address, however recently.
		if len(when) < need {
			continue
		}
		// The result counts as long as need answers are fresh, which ends with the oldest of the
		// need latest ones.
		slices.Sort(when)
		// need is a majority, so at most one address comes here.
		if end := when[len(when)-need].Add(fresh); !ok || end.After(until) {
			master, until, ok = address, end, true
		}
	}
	return master, until, ok
}

// mayStillDecide reports whether need of the Sentinels may come to name one master, once those
// have answered that have not answered yet.
func mayStillDecide(all []answer, need int) bool {
	silent, count := 0, make(map[string]int)
	for _, n := range all {
		// A Sentinel that failed counts as answered: waiting for it may take forever. Its earlier
		// answer is not counted here, though majorityMaster counts it while it is fresh. At worst a
		// dial fails early, and the pipeline dials again.
		if !n.answered {
			silent++
		} else if n.err == nil && n.master != "" {
			count[n.master]++
		}
	}
	most := 0
	for _, n := range count {
		// The master that most Sentinels name needs the fewest further answers. If it cannot reach
		// need, no other master can.
		most = max(most, n)
	}
	return silent > 0 && most+silent >= need
}

// explainNoMaster returns why there is no master.
func explainNoMaster(node, master string, all []answer, need int, maxAge time.Duration) string {
	var each []string
	for _, n := range all {
		each = append(each, n.String())
	}
	return fmt.Sprintf("%s follows %d Sentinels, of which %d must name one master as %s within %v: %s",
		node, len(all), need, master, maxAge, oneline.List(each, "; "))
}

// String describes the answer.
func (n answer) String() string {
	switch {
	// The error comes first: recordFailure keeps the earlier answer, and the text must not show
	// that one as the latest.
	case n.err != nil:
		return fmt.Sprintf("%s cannot be queried (%v)", n.sentinel, n.err)
	case !n.answered:
		return n.sentinel + " has not answered yet"
	case n.master == "":
		return n.sentinel + " does not know the master"
	}
	return n.sentinel + " named " + n.master
}
