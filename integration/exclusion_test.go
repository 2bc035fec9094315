//go:build unix

package integration

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
)

// Sixteen contenders: two processes with two Lockers each. So some contenders meet in the queue of
// a Locker, some in one process, and some only on the nodes.
const (
	contenderProcesses = 2
	contenderLockers   = 2
	contendersEach     = 4
	contendersTotal    = contenderProcesses * contenderLockers * contendersEach
)

// fault is something that happens to servers while contenders use locks on them.
type fault struct {
	name  string
	begin func(t *testing.T, nodes []*redistest.Node)
	again func(t *testing.T, nodes []*redistest.Node, nth int) // repeated while the fault lasts
	end   func(t *testing.T, nodes []*redistest.Node)
	after func(t *testing.T, nodes []*redistest.Node) // after all contenders have stopped
	names []string                                    // of the locks; one if none are given
}

// None of these faults makes a node forget a grant that some client still relies on. Such a fault
// may break exclusion by design, and the restart guard is for it.
var faults = []fault{
	{name: "nothing"},
	{name: "nothing, with sets of names that overlap", names: []string{"a", "b", "c", "d"}},
	{
		name:  "a node is paused",
		begin: func(t *testing.T, nodes []*redistest.Node) { nodes[0].Pause(t) },
		end:   func(t *testing.T, nodes []*redistest.Node) { nodes[0].Unpause(t) },
	},
	{
		name:  "a node is killed",
		begin: func(t *testing.T, nodes []*redistest.Node) { nodes[1].Kill(t) },
		after: func(t *testing.T, nodes []*redistest.Node) { nodes[1].Restart(t) },
	},
	{
		name: "scripts are flushed",
		again: func(t *testing.T, nodes []*redistest.Node, _ int) {
			for _, n := range nodes {
				n.Do(t, "SCRIPT", "FLUSH")
			}
		},
	},
	{
		name: "connections are killed",
		again: func(t *testing.T, nodes []*redistest.Node, nth int) {
			nodes[nth%len(nodes)].Do(t, "CLIENT", "KILL", "TYPE", "normal")
		},
	},
	{
		name: "clients have to wait",
		again: func(t *testing.T, nodes []*redistest.Node, nth int) {
			nodes[nth%len(nodes)].Do(t, "CLIENT", "PAUSE", 90)
			if nth%4 == 0 { // on a majority of the nodes
				nodes[(nth+1)%len(nodes)].Do(t, "CLIENT", "PAUSE", 60)
			}
		},
	},
}

// rebirth needs nodes that lose no data.
var rebirth = fault{
	name:  "a node is killed and comes back with what it had",
	begin: func(t *testing.T, nodes []*redistest.Node) { nodes[2].Kill(t) },
	end:   func(t *testing.T, nodes []*redistest.Node) { nodes[2].Restart(t) },
}

// tooShort is why a late node and a node with a fault are not in one test.
const tooShort = "a TTL of 300 ms, which makes faults frequent, is over before a late node grants"

func TestNoTwoHoldersAtOnceAndEveryContenderGetsTheLock(t *testing.T) {
	nodes := masters(t, 3)
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.begin != nil {
				late.LeaveOut(t, tooShort)
			}
			if len(f.names) == 0 {
				f.names = []string{"exclusion/" + strconv.Itoa(i)}
			}
			f.run(t, nodes)
		})
	}
	t.Run(rebirth.name, func(t *testing.T) {
		late.LeaveOut(t, tooShort)
		rebirth.names = []string{"exclusion"}
		rebirth.run(t, masters(t, 3, "--appendonly", "yes", "--appendfsync", "always"))
	})
}

// run contends before the fault, under it and after it, each time until every contender has held
// the lock.
func (f fault) run(t *testing.T, nodes []*redistest.Node) {
	t.Helper()
	given := make([]contention, contenderProcesses)
	for i := range given {
		given[i] = contention{
			URLs: redistest.URLs(nodes), Names: f.names, TTL: 300 * time.Millisecond,
			Process: i, Lockers: contenderLockers, Contenders: contendersEach,
		}
	}
	all := contenders.Start(t, given...)
	all.Until(t, "every contender has held the lock", allHeld(1, 0), nil)
	if f.begin != nil {
		f.begin(t, nodes)
	}
	all.Until(t, "every contender has held the lock twice under the fault", allHeld(2, 1500*time.Millisecond), func(nth int) {
		if f.again != nil {
			f.again(t, nodes, nth)
		}
	})
	if f.end != nil {
		f.end(t, nodes)
	}
	if f.after == nil {
		all.Until(t, "every contender has held the lock after the fault", allHeld(1, 0), nil)
	}
	all.Stop(t)
	if f.after != nil {
		f.after(t, nodes)
	}
	holds := all.Holds()
	assert.Empty(t, contenders.Overlaps(holds), "two contenders held the lock at once")
	redistest.NoKeys(t, nodes, 2*time.Second)
	t.Logf("%d holds", len(holds))
}

// allHeld returns a condition: every contender has held the lock the given number of times, and
// the given time has passed.
func allHeld(times int, atLeast time.Duration) func(since []contenders.Hold) bool {
	enough := time.Now().Add(atLeast)
	return func(since []contenders.Hold) bool {
		counts := make(map[string]int)
		for _, h := range since {
			counts[h.Contender]++
		}
		for _, n := range counts {
			if n < times {
				return false
			}
		}
		return len(counts) == contendersTotal && time.Now().After(enough)
	}
}
