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
	"github.com/quorumlock/go-redlock/pool/wire"
)

// seenAs makes a node what a letter says: f fails, g grants, x and y hold a token and
// refuse by it; X and Y hold one and answer no acquire, nor does a dot, which holds none; a
// dash answers nothing at all.
func seenAs(n *fakeNode, letter byte) {
	held := strings.ToLower(string(letter))
	if held == "x" || held == "y" {
		n.held["a"] = held
	}
	switch letter {
	case 'f':
		n.script = answering(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: errSome})
	case 'X', 'Y', '.':
		n.script = silently
	case '-':
		n.script = func(*fakeNode, *wire.Command) bool { return true }
	}
}

// whoWasAsked lists the nodes that were asked who holds the name.
func whoWasAsked(nodes []*fakeNode) string {
	var list []byte
	for i, n := range nodes {
		if len(n.commands(wire.Inspect)) > 0 {
			list = strconv.AppendInt(list, int64(i+1), 10)
		}
	}
	return string(list)
}

// lose makes an attempt without the query for the reason.
func lose(l *Locker, w *request) (*Lock, error) {
	k, err := l.newAttempt(bg, w, l.now())
	if err != nil {
		return nil, err
	}
	k.exchange.acquire.send(nil, nil)
	return k, l.finishAttempt(bg, k)
}

// docs/dev/rules.md rule 22: who is asked, after an attempt, to tell a holder from a split vote,
// for how long, and what is seen then.
func TestWhoIsAskedWhoHoldsAName(t *testing.T) {
	const short, long = minTie, maxNodeTimeout
	for _, c := range []struct {
		nodes, asked string
		held         bool
		took         time.Duration
	}{
		// All are well: those that refused, and nobody else where they are a majority.
		{"xxx", "123", true, 0},
		{"xxX", "12", true, 0},
		{"gxx", "23", true, 0},
		{"gxy", "23", false, 0},
		{"xyX", "12", false, 0},
		{"ggxxx", "345", true, 0},
		{"gxxxX", "234", true, 0},
		{"gxxyX", "234", false, 0},
		{"xxX-", "1234", true, 0},
		// A minority is not: of one's own votes a holder has none.
		{"fxX", "23", true, 0},
		{"fgx", "3", false, 0},
		{"fxxXX", "2345", true, 0},
		{"fxxX.", "2345", true, 0},
		{"fxx.X", "2345", true, 0},
		{"fgxxX", "345", true, 0},
		{"fgxx.", "345", false, 0},
		{"ffxXX", "345", true, 0},
		{"ffgxX", "45", false, 0}, // the fifth decides whether it is a fault
		{"ffgx-", "45", false, long},
		{"ffggxxX", "56", false, 0},
		// Where all others tell, or can't, nobody waits for one that is mute.
		{"fxxX-", "2345", true, 0},
		{"fgxy-", "345", false, 0},
		{"fx-", "23", false, long},
		{"fgxx-", "345", false, short},
		{"-gx", "3", false, 0}, // the attempt waited for it
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes, l := fakes(t, len(c.nodes), WithClock(clock.Runtime()))
			for i, n := range nodes {
				seenAs(n, c.nodes[i])
			}
			w := &request{names: []string{"a"}, ttl: time.Minute}
			k, err := lose(l, w)
			require.ErrorIs(t, err, ErrHeld, c.nodes)
			var seen contention
			took := elapsed(func() { seen, _ = l.describeHolders(bg, w, k, err) })
			require.Equal(t, c.asked, whoWasAsked(nodes), c.nodes)
			require.Equal(t, c.held, seen.held, c.nodes)
			require.Equal(t, c.took, took, c.nodes)
		})
	}
}

// answersAfter has a node act on acquires and looks at once, in the order in which they came,
// and answer each so much later; one that is down says so then.
func answersAfter(n *fakeNode, down bool, acquire, look time.Duration) {
	n.script = func(n *fakeNode, c *wire.Command) bool {
		late := acquire
		switch {
		case c.Op == wire.Inspect:
			late = look
		case c.Op != wire.Acquire:
			return false
		}
		rep := wire.Reply{Outcome: wire.Failed, NotSent: true, Err: errSome}
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

// There is no order of answers that tells nothing: whichever decide an attempt while a minority
// is down (f) or lacks the key (a dot), and whoever says first who holds the name, one token on
// a quorum is told from a split vote. So no attempt is made again for the order's sake.
func TestAHolderIsToldFromASplitVoteInWhateverOrderNodesAnswer(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"fxx", ".xx", "fxxx", ".xxx", "fxxxx", "ffxxx", "f.xxx", "..xxx"} {
		onFakes(t, len(what), func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clock.Skewed) {
			for i, n := range nodes {
				seenAs(n, what[i])
			}
			for _, acquires := range orders(len(nodes)) {
				looks := slices.Clone(acquires)
				for range 2 { // who holds it is told in the same order, and from behind
					for i, n := range nodes {
						answersAfter(n, what[i] == 'f', time.Duration(acquires[i])*time.Millisecond, time.Duration(looks[i])*time.Millisecond)
					}
					w := &request{names: []string{"a"}, ttl: time.Minute}
					k, err := lose(l, w)
					require.ErrorIs(t, err, ErrHeld, "%s %v", what, acquires)
					seen, _ := l.describeHolders(bg, w, k, err)
					require.True(t, seen.held, "%s: attempt %v, look %v", what, acquires, looks)
					pass(minTie) // what is late has come
					for i := range looks {
						looks[i] = len(looks) - 1 - looks[i]
					}
				}
			}
		})
	}
}

// A lock that is plainly held costs TryAcquire one attempt and one query, and no repetition.
func TestTryAcquireReportsAPlainHolderAtOnce(t *testing.T) {
	for _, what := range []string{"xxx", "gxx", "xxX", "fxx", "ggxxx", "gxxxX", "fxxX-", "ffxxX", "xxXX"} {
		onFakes(t, len(what), func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clock.Skewed) {
			for i, n := range nodes {
				seenAs(n, what[i])
			}
			var err error
			require.Zero(t, elapsed(func() { err = tried(l) }), what)
			require.ErrorIs(t, err, ErrHeld, what)
			require.False(t, isSplit(err), what)
			for _, n := range nodes {
				require.LessOrEqual(t, len(n.commands(wire.Acquire)), 1, what)
				require.LessOrEqual(t, len(n.commands(wire.Inspect)), 1, what)
			}
		})
	}
}
