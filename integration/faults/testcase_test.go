//go:build unix

package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/integration/tcpfault"
)

// testCase is one cell of the matrix.
type testCase struct {
	fault      fault
	nodes      int
	work       string
	contenders int
}

func (c testCase) String() string {
	return fmt.Sprintf("%s/%d nodes/%s/%d contenders", c.fault.name, c.nodes, c.work, c.contenders)
}

// outcome is the result of a test case.
type outcome struct {
	testCase

	acquired, lost, overlaps, disorder int
	accepted, refused, lostWrites      int
	gap                                time.Duration // the longest time without a holder
}

// site has the servers of a test case.
type site struct {
	patients []*patient
	urls     []string
}

// run contends before the fault, while a minority has it, while a majority has it, and after that.
func (c testCase) run(t *testing.T, s *site) outcome {
	t.Helper()
	for _, n := range s.patients {
		n.Do(t, "FLUSHALL")
	}
	r := newRegister(t)
	all := c.start(t, s, r, c.fault.forgets)
	all.Until(t, "the lock was held", held(2), nil)
	c.strike(t, all, s.patients[:c.nodes/2], true)
	all.Until(t, "the lock was held after the fault of a minority", held(1), nil)
	c.strike(t, all, s.patients[:c.nodes/2+1], false)
	all.Until(t, "the lock was held after the fault of a majority", held(2), nil)
	all.Stop(t)

	o := c.judge(t, all.Holds(), r)
	nodes := make([]*redistest.Node, len(s.patients))
	for i, n := range s.patients {
		nodes[i] = n.Node
	}
	redistest.NoKeys(t, nodes, 2*time.Second)
	return o
}

func held(times int) func(since []contenders.Hold) bool {
	return func(since []contenders.Hold) bool { return len(ofTheLock(since)) >= times }
}

// lockName is the name for which the contenders contend.
const lockName = "lock"

// ofTheLock returns the holds of the lock, without those of the crowd.
func ofTheLock(holds []contenders.Hold) []contenders.Hold {
	return slices.DeleteFunc(slices.Clone(holds), func(h contenders.Hold) bool { return h.Names[0] != lockName })
}

const processes = 2

func (c testCase) start(t *testing.T, s *site, r *register, guard bool) *contenders.Group {
	t.Helper()
	given := make([]task, processes)
	for i := range given {
		given[i] = task{
			URLs: s.urls, Name: lockName, TTL: ttl, Work: c.work, Process: i, Contenders: c.contenders / processes,
			Guard: guard, Register: r.listener.Addr().String(),
		}
	}
	return contenders.Start(t, given...)
}

// strike injects the fault into some nodes. If others is true the other nodes suffice for the lock,
// and it must be held meanwhile.
func (c testCase) strike(t *testing.T, all *contenders.Group, nodes []*patient, others bool) {
	t.Helper()
	enough := time.Now().Add(time.Duration(c.fault.lasts * float64(ttl)))
	if c.fault.strike != nil {
		each(t, nodes, func(n *patient) { c.fault.strike(t, n) })
	}
	all.Until(t, "the fault is over, and the lock was held if it can be", func(since []contenders.Hold) bool {
		return time.Now().After(enough) && (!others || held(1)(since))
	}, func(int) {
		if c.fault.again != nil {
			each(t, nodes, func(n *patient) { c.fault.again(t, n) })
		}
	})
	if c.fault.heal != nil {
		each(t, nodes, func(n *patient) { c.fault.heal(t, n) })
	}
	for _, n := range nodes {
		n.leave()
	}
}

// each calls a function for all nodes at once. It ends the test if a call fails, which a goroutine
// other than the test's cannot do.
func each(t *testing.T, nodes []*patient, do func(*patient)) {
	t.Helper()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { do(n) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (c testCase) judge(t *testing.T, holds []contenders.Hold, r *register) outcome {
	t.Helper()
	overlaps, disorder := contenders.Overlaps(holds), contenders.Disorder(holds)
	assert.Empty(t, overlaps, "two contenders held the lock at once")
	assert.Empty(t, disorder, "the fences are not in the order of the holders")
	holds = ofTheLock(holds)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(t, r.lost, "the register lost a write")
	o := outcome{
		testCase: c, acquired: len(holds), overlaps: len(overlaps), disorder: len(disorder),
		accepted: r.accepted, refused: r.refused, lostWrites: len(r.lost), gap: contenders.LongestGap(holds),
	}
	for _, h := range holds {
		if h.Lost {
			o.lost++
		}
	}
	return o
}

// sites starts servers when test cases need them, and keeps them for later test cases.
type sites map[string]*site

func (all sites) of(t *testing.T, c testCase) *site {
	t.Helper()
	key := c.site()
	if all[key] == nil {
		args := append(redistest.Freely(t), "--repl-diskless-sync-delay", "0")
		if c.fault.durable {
			args = append(args, "--appendonly", "yes", "--appendfsync", "everysec")
		}
		start := redistest.Start
		if c.fault.detached {
			start = redistest.StartOnNetwork
		}
		s := &site{}
		for _, n := range start(t, c.nodes, args...) {
			s.patients = append(s.patients, &patient{Node: n})
		}
		all[key] = s
	}
	s := all[key]
	s.urls = nil
	for _, n := range s.patients {
		if c.fault.forgets && n.spare == nil {
			n.spare = all.empty(t)
		}
		url := n.URL()
		if c.fault.proxied {
			p, err := tcpfault.Listen(n.Addr())
			require.NoError(t, err)
			n.proxy = p
			url = "redis://" + p.Addr()
		}
		s.urls = append(s.urls, url)
	}
	return s
}

// site returns the key of the servers that a test case needs.
func (c testCase) site() string { return fmt.Sprint(c.nodes, c.fault.durable, c.fault.detached) }

// empty starts an empty server.
func (all sites) empty(t *testing.T) *redistest.Node {
	t.Helper()
	if all["spare"] == nil {
		n := redistest.Start(t, 1, "--repl-diskless-sync-delay", "0")[0]
		all["spare"] = &site{patients: []*patient{{Node: n}}}
	}
	return all["spare"].patients[0].Node
}

// leave closes what only this test case needs. A failed case may not have healed its servers, so later
// cases get others.
func (all sites) leave(t *testing.T, c testCase) {
	t.Helper()
	s := all[c.site()]
	if t.Failed() {
		delete(all, c.site())
	}
	for _, n := range s.patients {
		if n.proxy != nil {
			assert.NoError(t, n.proxy.Close())
			n.proxy = nil
		}
	}
}
