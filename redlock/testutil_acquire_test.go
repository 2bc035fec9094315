package redlock

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"regexp"
	"runtime"
	"slices"
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
	"github.com/quorumlock/go-redlock/pool"
)

// This file has what the tests of acquisitions share.

// bg is the context of callers without a deadline.
var bg = context.Background()

// errSome is the error of a node that fails.
var errSome = errors.New("some trouble")

// process returns another process on the same masters, with a clock of its own.
func (fl *testbed) process() *testbed {
	return &testbed{t: fl.t, masters: fl.masters, clock: clocktest.NewSkewed(clock.Runtime()), late: fl.late, two: fl.two}
}

func (fl *testbed) each(f func(m *fakeredis.Master)) {
	for _, m := range fl.masters {
		f(m)
	}
}

// count returns how many of these commands the masters were sent. Without names it counts all
// commands.
func (fl *testbed) count(names ...string) int {
	n := 0
	fl.each(func(m *fakeredis.Master) {
		for name, sent := range m.Commands() {
			if len(names) == 0 || slices.Contains(names, name) {
				n += sent
			}
		}
	})
	return n
}

// forget clears the masters' logs when all have answered.
func (fl *testbed) forget() {
	fl.answered()
	fl.each(func(m *fakeredis.Master) { m.ForgetLog() })
}

// tokens lists the values of all SETs that a master was sent.
func tokens(m *fakeredis.Master) []string {
	var list []string
	for _, e := range m.Log() {
		if e.Name == "SET" {
			list = append(list, e.Args[1])
		}
	}
	return list
}

// scriptKind returns a script's name without its variant.
func scriptKind(s *command.Script) string {
	name, _, _ := strings.Cut(s.Name, "+")
	return name
}

// scripts counts the calls of a script that a master was sent: of one variant, or of all of them.
func scripts(m *fakeredis.Master, name string) int {
	n := 0
	for _, e := range m.Log() {
		for _, s := range command.Scripts() {
			if (scriptKind(s) == name || s.Name == name) && e.Name == "EVALSHA" && e.Args[0] == s.Hash {
				n++
			}
		}
	}
	return n
}

// left lists all keys on all masters.
func (fl *testbed) left() []string {
	all := map[string]bool{}
	fl.each(func(m *fakeredis.Master) {
		for _, k := range m.Keys() {
			all[k] = true
		}
	})
	return slices.Sorted(maps.Keys(all))
}

// stats adds up the statistics of a Locker's nodes.
func stats(l *Locker) (sum pool.Stats) {
	for _, n := range l.nodes {
		s := statsOf(n)
		sum.Queued += s.Queued
		sum.Connected += s.Connected
	}
	return sum
}

// statsOf returns the statistics of one node.
func statsOf(n command.Voter) pool.Stats { return n.(interface{ Stats() pool.Stats }).Stats() }

// goroutines counts the goroutines of the caller's bubble when all of them are idle.
func goroutines() int {
	synctest.Wait()
	dump := make([]byte, 1<<20)
	for {
		n := runtime.Stack(dump, true)
		if n < len(dump) {
			dump = dump[:n]
			break
		}
		dump = make([]byte, 2*len(dump))
	}
	all := bubble.FindAll(dump, -1) // the first is the caller's
	n := 0
	for _, b := range all {
		if bytes.Equal(b, all[0]) {
			n++
		}
	}
	return n
}

var bubble = regexp.MustCompile(`synctest bubble \d+`)

// onFakes runs f in a bubble on n fake nodes with a clock that can be skewed.
func onFakes(t *testing.T, n int, f func(t *testing.T, nodes []*fakeNode, l *Locker, c *clocktest.Skewed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := clocktest.NewSkewed(clock.Runtime())
		nodes, l := fakes(t, n, WithClock(c))
		f(t, nodes, l, c)
	})
}

// answering makes a script that answers acquires by r and acts on all else.
func answering(r command.Reply) func(*fakeNode, *command.Command) bool {
	return func(_ *fakeNode, c *command.Command) bool {
		if c.Op != command.Acquire {
			return false
		}
		if !r.NotSent {
			c.MarkSent()
		}
		c.Answer(r)
		return true
	}
}

// silently executes acquires and never answers them.
func silently(n *fakeNode, c *command.Command) bool {
	if c.Op != command.Acquire {
		return false
	}
	if c.MarkSent() {
		n.execute(c)
	}
	return true
}

// together calls f n times at once, and yields the results when all calls have returned.
func together(n int, f func(i int) error) iter.Seq[error] {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return slices.Values(errs)
}

// elapsed returns the virtual time that f takes.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// votes returns the outcomes in an error, in the nodes' order.
func votes(t *testing.T, err error) []Outcome {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	var list []Outcome
	for _, v := range qe.Votes {
		list = append(list, v.Outcome)
	}
	return list
}

// oneLine fails if an error's text has several lines.
func oneLine(t *testing.T, err error) {
	t.Helper()
	require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err.Error())
}
