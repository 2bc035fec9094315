package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// A repair executes late and makes the key again. The repeated undo deletes it, also when a first
// undo was granted by the copy of a second repair.
func TestARepairThatIsExecutedLateIsUndoneAfterAReleaseThatWasGranted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded(WithRepair())
		k := take(fl.t, l, "a", 4*time.Second)
		m := fl.masters[2]
		m.Deny("CLIENT KILL") // as behind a proxy
		m.Del("a")
		held := 0
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			for _, s := range command.Scripts() {
				if s.Name == "repair+guard" && cmd == "EVALSHA" && args[0] == s.Hash {
					held++
					return "", held == 1 // the first repair is in transit until much later
				}
			}
			return "", false
		})
		require.NoError(fl.t, k.Extend(bg, 4*time.Second))
		fl.answered()
		for _, c := range m.Clients() {
			c.Drop()
		}
		pass(10 * time.Millisecond)
		require.NoError(fl.t, k.Extend(bg, 4*time.Second))
		fl.answered()
		require.Equal(fl.t, 2, held)
		require.Equal(fl.t, 3, fl.keys("a"))
		require.NoError(fl.t, k.Release(bg))
		pass(5 * time.Millisecond)
		fl.releasedEverywhere("a")
		m.Set("a", k.Token(), 4*time.Second) // only now the first repair executes
		pass(2 * time.Second)
		require.Zero(fl.t, fl.keys("a"), "left behind by the late repair")
	})
}

// The first extension found two nodes without keys, and one says so late. Meanwhile their keys are there again, and a second
// extension was confirmed.
func TestRefusalsThatAreOlderThanAConfirmationEndNoLock(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Minute)
		var late *command.Command
		nodes[0].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op != command.Extend || late != nil {
				return false
			}
			c.MarkSent()
			late = c
			return true
		}
		nodes[1].script = answerTo(command.Extend, command.Reply{Outcome: command.Refused})
		first := make(chan error, 1)
		go func() { first <- k.Extend(bg, time.Minute) }()
		pass(time.Millisecond)
		nodes[1].script = nil
		require.NoError(t, k.Extend(bg, time.Minute))
		late.Answer(command.Reply{Outcome: command.Refused})
		require.Error(t, <-first)
		require.NoError(t, k.Err())
		require.NoError(t, k.Release(bg))
	})
}
