package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
)

// H2: a reply that is lost after the SET was executed is not a vote, and its key is undone. All
// three masters hold the key, but there is no lock.
func TestALostReplyIsNoVoteAndItsKeyIsUndone(t *testing.T) {
	for _, bytes := range []int{0, 3} { // of "+OK\r\n"
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // the replies of the others are lost
			l := fl.locker()
			fl.masters[0].Clients()[0].CutReply(bytes)
			fl.masters[1].Clients()[0].CutReply(bytes)
			_, err := l.TryAcquire(bg, "a", time.Minute)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.Equal(t, []Outcome{OutcomeUnknown, OutcomeUnknown}, votes(t, err)[:2])
			for _, m := range fl.masters[:2] {
				_, ok := m.Get("a")
				require.True(t, ok, "the SET was not applied")
			}
			time.Sleep(50 * time.Millisecond) // one dial
			fl.answered()
			require.Zero(t, fl.keys("a"))
			require.Equal(t, 0, stats(l).Queued)
		})
	}
}

// H2, H113: one node's lost reply costs nothing. Its key belongs to the lock and is deleted with
// it.
func TestALostReplyOfAMinorityLeavesTheLockAsItIs(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[1].Clients()[0].CutReply(0)
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// H4: a failed attempt is undone on every node that may hold its key: those that granted, failed or
// did not answer. Nodes that refused or that no byte was sent to hold nothing, and get no undo.
// This refines docs/dev/rules.md rule 5 (docs/dev/adr/0003).
func TestOnlyNodesThatSurelyHoldNothingAreSparedTheUndo(t *testing.T) {
	for name, c := range map[string]struct {
		script func(*fakeNode, *command.Command) bool
		undone bool
	}{
		"granted": {nil, true},
		"applied, and answered by an error": {func(n *fakeNode, c *command.Command) bool {
			if c.Op == command.Acquire && c.MarkSent() {
				n.execute(c)
				c.Answer(command.Reply{Outcome: command.Failed, Err: errSome})
			}
			return c.Op == command.Acquire
		}, true},
		"applied, the reply unreadable": {func(n *fakeNode, c *command.Command) bool {
			if c.Op == command.Acquire && c.MarkSent() {
				n.execute(c)
				c.Answer(command.Reply{Outcome: command.Unknown, Err: errSome})
			}
			return c.Op == command.Acquire
		}, true},
		"applied, and silent": {silently, true},
		"refused":             {answering(command.Reply{Outcome: command.Refused}), false},
		"not sent, failed":    {answering(command.Reply{Outcome: command.Failed, NotSent: true, Err: errSome}), false},
		"not sent yet":        {func(_ *fakeNode, c *command.Command) bool { return c.Op == command.Acquire }, false},
	} {
		t.Run(name, func(t *testing.T) {
			onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
				nodes[0].script = c.script
				for _, n := range nodes[1:] {
					n.held["a"] = "x"
				}
				_, err := l.TryAcquire(bg, "a", time.Second)
				require.ErrorIs(t, err, ErrHeld)
				require.Empty(t, nodes[0].held)
				undos := nodes[0].commands(command.Release)
				require.Equal(t, c.undone, len(undos) == 1)
				require.Empty(t, nodes[1].commands(command.Release))
				require.Empty(t, nodes[2].commands(command.Release))
				acquire := nodes[0].commands(command.Acquire)[0]
				require.False(t, acquire.MarkSent(), "it could still be sent behind its undo")
				if c.undone {
					require.Equal(t, acquire.Token(), undos[0].Token())
				}
			})
		})
	}
}

// docs/dev/rules.md rule 5: a grant that arrives after the attempt was lost is undone by a command
// that follows the acquire.
func TestAGrantAfterTheDecisionIsUndone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[0].Clients()[0].HoldRequests()
		for _, m := range fl.masters[1:] {
			m.Set("a", "x", time.Minute)
			m.SetDelay(trip) // by then the acquire is in transit to n1
		}
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, []Outcome{OutcomeUnknown, OutcomeRefused, OutcomeRefused}, votes(t, err))
		fl.masters[0].Clients()[0].Release()
		fl.answered()
		require.Len(t, tokens(fl.masters[0]), 1, "the acquire was not executed at all")
		_, left := fl.masters[0].Get("a")
		require.False(t, left)
		require.Zero(t, booked(l))
	})
}

// docs/dev/rules.md promise 4: no undo is pending for a dead node, however many attempts were made
// meanwhile.
func TestADeadNodeIsOwedNoUndo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[2].Stop()
		time.Sleep(time.Second) // a dial has failed
		for range 100 {
			k, err := l.TryAcquire(bg, "a", time.Minute)
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
		}
		fl.answered()
		require.Zero(t, stats(l).Queued)
		require.Zero(t, booked(l))
	})
}
