package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// answer is what one Sentinel said last.
type answer struct {
	sentinel string        // its address
	master   string        // the one that it named; empty when it knows of none, or was not heard yet
	asked    clock.Instant // when it was asked that, before it answered
	err      error         // why it could not be asked since
	answered bool          // an answer came, or an error
	peers    int           // how many other Sentinels it knew of
}

// majorityMaster is the master that need of the Sentinels name, and until when that counts:
// none of them may have been asked longer ago than fresh. It knows no clock and no
// network.
func majorityMaster(all []answer, need int, fresh time.Duration) (master string, until clock.Instant, ok bool) {
	asked := make(map[string][]clock.Instant)
	for _, n := range all {
		if n.master != "" {
			asked[n.master] = append(asked[n.master], n.asked)
		}
	}
	for address, when := range asked {
		if len(when) < need {
			continue
		}
		slices.Sort(when)
		if end := when[len(when)-need].Add(fresh); !ok || end.After(until) {
			master, until, ok = address, end, true
		}
	}
	return master, until, ok
}

// mayStillDecide reports whether need of them may come to name one master when those are
// heard that were not heard yet.
func mayStillDecide(all []answer, need int) bool {
	silent, count := 0, make(map[string]int)
	for _, n := range all {
		if !n.answered {
			silent++
		} else if n.err == nil && n.master != "" {
			count[n.master]++
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	return silent > 0 && most+silent >= need
}

// explainNoMaster says in words why there is no master.
func explainNoMaster(node, master string, all []answer, need int, settle time.Duration) string {
	var each []string
	for _, n := range all {
		each = append(each, n.String())
	}
	return fmt.Sprintf("%s follows %d Sentinels, of which %d must have named one master as %s within the last %v: %s",
		node, len(all), need, master, settle, strings.Join(each, "; "))
}

// String says what the Sentinel said.
func (n answer) String() string {
	switch {
	case n.err != nil:
		return fmt.Sprintf("%s can't be asked (%v)", n.sentinel, n.err)
	case !n.answered:
		return n.sentinel + " has not answered yet"
	case n.master == "":
		return n.sentinel + " knows of no such master"
	}
	return n.sentinel + " named " + n.master
}
