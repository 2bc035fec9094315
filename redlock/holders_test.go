package redlock

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// seenAs makes a node behave as a letter says: f fails and g grants; x and y hold a token and
// refuse. X and Y hold a token and do not answer acquires, nor does a dot, which holds none. A dash
// answers nothing at all.
func seenAs(n *fakeNode, letter byte) {
	held := strings.ToLower(string(letter))
	if held == "x" || held == "y" {
		n.held["a"] = held
	}
	switch letter {
	case 'f':
		n.script = answering(command.Reply{Outcome: command.Failed, NotSent: true, Err: errSome})
	case 'X', 'Y', '.':
		n.script = silently
	case '-':
		n.script = func(*fakeNode, *command.Command) bool { return true }
	}
}

// queriedNodes lists the nodes that were queried for the holder.
func queriedNodes(nodes []*fakeNode) string {
	var list []byte
	for i, n := range nodes {
		if len(n.commands(command.Inspect)) > 0 {
			list = strconv.AppendInt(list, int64(i+1), 10)
		}
	}
	return string(list)
}

// lose makes an attempt, without the query for the holder.
func lose(a *acquisition) (*Lock, error) {
	a.caller = bg
	k, err := a.newAttempt()
	if err != nil {
		return nil, err
	}
	k.keys.acquire.Send(nil).Settle()
	_, err = (attempt{&a.call, k}).finish(bg)
	return k, err
}

// docs/dev/rules.md rule 22: the query after an attempt tells a holder from a split vote. The rows
// have the nodes that are queried, the time that it takes, and the result.
func TestNodesThatAreQueriedForTheHolder(t *testing.T) {
	short, long := minTie, maxNodeTimeout
	for _, c := range []struct {
		nodes, asked string
		held         bool
		took         time.Duration
	}{
		// All nodes are up. If those that refused are a majority, only they are queried.
		{"xxx", "123", true, 0},
		{"xxX", "12", true, 0},
		{"gxx", "23", true, 0},
		{"gxy", "23", false, 0},
		{"xyX", "12", false, 0},
		{"ggxxx", "345", true, 0},
		{"gxxxX", "234", true, 0},
		{"gxxyX", "234", false, 0},
		{"xxX-", "1234", true, 0},
		// A minority is down. Nodes that granted are not queried, because no holder has them.
		{"fxX", "23", true, 0},
		{"fgx", "3", false, 0},
		{"fxxXX", "2345", true, 0},
		{"fxxX.", "2345", true, 0},
		{"fxx.X", "2345", true, 0},
		{"fgxxX", "345", true, 0},
		{"fgxx.", "345", false, 0},
		{"ffxXX", "345", true, 0},
		{"ffgxX", "45", false, 0}, // the fifth node decides whether it is a fault
		{"ffgx-", "45", false, long},
		{"ffggxxX", "56", false, 0},
		// A silent node is not waited for if the others decide, or cannot be decisive.
		{"fxxX-", "2345", true, 0},
		{"fgxy-", "345", false, 0},
		{"fx-", "23", false, long},
		{"fgxx-", "345", false, short},
		{"-gx", "3", false, 0}, // the attempt waited for that node
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes, l := fakes(t, len(c.nodes), WithClock(clock.Runtime()))
			for i, n := range nodes {
				seenAs(n, c.nodes[i])
			}
			w := &acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: time.Minute}}
			k, err := lose(w)
			require.ErrorIs(t, err, ErrHeld, c.nodes)
			var seen verdict.Contention
			took := elapsed(func() { seen, _ = w.describeHolders(bg, k, err) })
			require.Equal(t, c.asked, queriedNodes(nodes), c.nodes)
			require.Equal(t, c.held, seen.Stuck, c.nodes)
			require.Equal(t, c.took, took, c.nodes)
		})
	}
}

// answersAfter makes a node execute acquires and queries at once, in order, and answer each after a
// delay of its own. A node that is down reports its failure after the same delay.
func answersAfter(n *fakeNode, down bool, acquire, look time.Duration) {
	n.script = func(n *fakeNode, c *command.Command) bool {
		late := acquire
		switch {
		case c.Op == command.Inspect:
			late = look
		case c.Op != command.Acquire:
			return false
		}
		rep := command.Reply{Outcome: command.Failed, NotSent: true, Err: errSome}
		if !down {
			if !c.MarkSent() {
				return false
			}
			rep = n.execute(c)
		}
		time.AfterFunc(late, func() { c.Answer(rep) })
		return true
	}
}

// A minority is down (f) or lacks the key (a dot). One token on a quorum must be told from a split
// vote in every order of the answers to the attempt and to the query.
func TestAHolderIsDistinguishedFromASplitVoteInAnyOrderOfAnswers(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"fxx", ".xx", "fxxx", ".xxx", "fxxxx", "ffxxx", "f.xxx", "..xxx"} {
		onFakes(t, len(what), func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
			for i, n := range nodes {
				seenAs(n, what[i])
			}
			for _, acquires := range orders(len(nodes)) {
				looks := slices.Clone(acquires)
				for range 2 { // the query is answered in the order of the attempt, and in reverse
					for i, n := range nodes {
						answersAfter(n, what[i] == 'f', time.Duration(acquires[i])*time.Millisecond, time.Duration(looks[i])*time.Millisecond)
					}
					w := &acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: time.Minute}}
					k, err := lose(w)
					require.ErrorIs(t, err, ErrHeld, "%s %v", what, acquires)
					seen, _ := w.describeHolders(bg, k, err)
					require.True(t, seen.Stuck, "%s: attempt %v, look %v", what, acquires, looks)
					pass(minTie) // late answers have arrived
					for i := range looks {
						looks[i] = len(looks) - 1 - looks[i]
					}
				}
			}
		})
	}
}

// With a plain holder TryAcquire makes one attempt and one query, and does not repeat them.
func TestTryAcquireReportsAPlainHolderAtOnce(t *testing.T) {
	for _, what := range []string{"xxx", "gxx", "xxX", "fxx", "ggxxx", "gxxxX", "fxxX-", "ffxxX", "xxXX"} {
		onFakes(t, len(what), func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
			for i, n := range nodes {
				seenAs(n, what[i])
			}
			var err error
			require.Zero(t, elapsed(func() { err = tried(l) }), what)
			require.ErrorIs(t, err, ErrHeld, what)
			require.False(t, isSplit(err), what)
			for _, n := range nodes {
				require.LessOrEqual(t, len(n.commands(command.Acquire)), 1, what)
				require.LessOrEqual(t, len(n.commands(command.Inspect)), 1, what)
			}
		})
	}
}
