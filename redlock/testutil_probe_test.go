package redlock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// In a bubble a function takes no time, so a test cannot see in which order it acted. Probes make
// the order visible: time passes in each Submit, and the state at that instant is recorded.

// probe is a node of package pool whose Submit is watched.
type probe struct {
	command.Voter
	probes *probes
}

// Submit records the command, and lets time pass before the node gets it.
func (n *probe) Submit(c, behind *command.Command) error {
	n.probes.note(c)
	if behind != nil {
		n.probes.note(behind)
	}
	return n.Voter.Submit(c, behind)
}

// probes are the nodes of one Locker.
type probes struct {
	clock *clocktest.Skewed

	mu      sync.Mutex
	takes   map[command.Op]time.Duration // how long the Submit of an operation takes
	during  map[command.Op]func()        // what happens within
	watched []context.Context
	log     []submission
}

// submission is what a probe recorded when a command was submitted.
type submission struct {
	op   command.Op
	node int
	at   clock.Instant // before the time that Submit takes
	open int           // watched contexts that had not ended
}

func (p *probes) note(c *command.Command) {
	p.mu.Lock()
	s := submission{op: c.Op, node: int(c.Node), at: p.clock.Now()}
	for _, ctx := range p.watched {
		select {
		case <-ctx.Done():
			if ctx.Err() == nil {
				s.open++
			}
		default:
			s.open++
		}
	}
	p.log = append(p.log, s)
	takes, during := p.takes[c.Op], p.during[c.Op]
	p.mu.Unlock()
	p.clock.Jump(takes) // no timer notices
	if during != nil {
		during()
	}
}

// take makes each Submit of an operation last that long.
func (p *probes) take(op command.Op, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takes[op] = d
}

// within calls f in each Submit of an operation.
func (p *probes) within(op command.Op, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.during[op] = f
}

// watch observes the contexts of handles from now on.
func (p *probes) watch(handles ...*Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = nil
	for _, k := range handles {
		p.watched = append(p.watched, k.Context())
	}
}

// of lists the submissions of an operation.
func (p *probes) of(op command.Op) (some []submission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.log {
		if s.op == op {
			some = append(some, s)
		}
	}
	return some
}

// probed makes a Locker over probes of the testbed's nodes.
func (fl *testbed) probed(opts ...Option) (*Locker, *probes) {
	fl.t.Helper()
	p := &probes{clock: fl.clock, takes: map[command.Op]time.Duration{}, during: map[command.Op]func(){}}
	nodes := make([]command.Voter, len(fl.masters))
	for i := range nodes {
		nodes[i] = &probe{fl.voter(i), p}
	}
	l, err := newOver(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
	require.NoError(fl.t, err)
	testbeds.Store(l, fl)
	fl.t.Cleanup(func() {
		testbeds.Delete(l)
		fl.close(l)
	})
	if l.set.guarded {
		fl.serve(l)
	}
	return l, p
}

// forOneNameAndTwo runs f on three masters in virtual time, for a lock on one name and for one on
// two.
func forOneNameAndTwo(t *testing.T, f func(fl *testbed, names []string)) {
	t.Helper()
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) { f(fl, names) })
		})
	}
}

// takeAll acquires a lock on names, and returns when every node has answered.
func takeAll(t *testing.T, l *Locker, names []string, ttl time.Duration, opts ...LockOption) *Lock {
	t.Helper()
	k := takeAllAtOnce(t, l, names, ttl, opts...)
	bedOf(l).answered()
	return k
}

// takeAllAtOnce is takeAll, and spends no time on a late master.
func takeAllAtOnce(t *testing.T, l *Locker, names []string, ttl time.Duration, opts ...LockOption) *Lock {
	t.Helper()
	k, err := l.TryAcquireAll(bg, names, ttl, opts...)
	require.NoError(t, err)
	synctest.Wait()
	return k
}

// sees returns how often the masters were sent the scripts of an operation, in any variant.
func (fl *testbed) sees(script string) int {
	n := 0
	fl.each(func(m *fakeredis.Master) { n += scripts(m, script) })
	return n
}
