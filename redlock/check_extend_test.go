package redlock

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// A Check and an extension overlap, in both orders (docs/dev/rules.md rule 8). What the nodes
// reported of the time before an extension does not lower the end that the extension set.

// kept records the commands that nodes hold back until the test answers them.
type kept struct {
	mu       sync.Mutex
	commands map[command.Op][]*command.Command
}

// keep makes nodes hold back commands of these operations.
func keep(nodes []*fakeNode, ops ...command.Op) *kept {
	all := &kept{commands: map[command.Op][]*command.Command{}}
	for _, n := range nodes {
		n.script = func(_ *fakeNode, c *command.Command) bool {
			if !slices.Contains(ops, c.Op) {
				return false
			}
			c.MarkSent()
			all.mu.Lock()
			defer all.mu.Unlock()
			all.commands[c.Op] = append(all.commands[c.Op], c)
			return true
		}
	}
	return all
}

// take returns the commands of an operation that are held back, for the test to answer.
func (k *kept) take(op command.Op) []*command.Command {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.commands[op]
	delete(k.commands, op)
	return list
}

// answer answers the commands of an operation that are held back.
func (k *kept) answer(t *testing.T, op command.Op, rep command.Reply) {
	t.Helper()
	list := k.take(op)
	require.NotEmpty(t, list)
	for _, c := range list {
		c.Answer(rep)
	}
	synctest.Wait()
}

// holding is a node's report of a key that the lock holds for ttl.
func holding(k *Lock, ttl time.Duration) command.Reply {
	return command.Reply{Outcome: command.Granted, KeyStates: []command.KeyState{{Value: k.Token(), TTL: ttl}}}
}

// A node executes in order what it is sent. So what it reports of a lock that was extended before is no older than that.
func TestAChecksAnswersFromBeforeAnExtensionLowerNothing(t *testing.T) {
	const ttl, longer = 10 * time.Second, 20 * time.Second
	for _, extendedFirst := range []bool{true, false} { // which of the two was sent first
		inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
			k := take(t, l, "a", ttl)
			pass(5 * time.Second)
			all := keep(nodes, command.Inspect, command.Extend)
			checked, extended := make(chan error, 1), make(chan error, 1)
			check := func() { checked <- k.Check(bg) }
			extend := func() { extended <- k.Extend(bg, longer) }
			order := []func(){check, extend}
			if extendedFirst {
				order = []func(){extend, check}
			}
			for _, f := range order {
				go f()
				pass(10 * time.Millisecond)
			}
			all.answer(t, command.Extend, command.Reply{Outcome: command.Granted})
			require.NoError(t, <-extended)
			given := k.Remaining()
			require.InDelta(t, worth(longer), given, float64(30*time.Millisecond))
			pass(10 * time.Millisecond)
			all.answer(t, command.Inspect, holding(k, ttl-5*time.Second)) // as before the extension, or the nodes' clocks jumped
			require.NoError(t, <-checked)
			if extendedFirst {
				require.InDelta(t, worth(ttl-5*time.Second), k.Remaining(), float64(30*time.Millisecond))
			} else {
				require.Equal(t, given-10*time.Millisecond, k.Remaining())
			}
			require.NoError(t, k.Release(bg))
		})
	}
}

// The answers arrive in the other order. Check lowers the end, and the extension under way still
// takes full effect.
func TestAnExtensionUnderWayRaisesWhatACheckHasLowered(t *testing.T) {
	const ttl, longer = 10 * time.Second, 20 * time.Second
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", ttl, WithAutoExtend())
		all := keep(nodes, command.Inspect, command.Extend)
		checked, extended := make(chan error, 1), make(chan error, 1)
		go func() { extended <- k.Extend(bg, longer) }()
		pass(10 * time.Millisecond)
		go func() { checked <- k.Check(bg) }()
		synctest.Wait()
		all.answer(t, command.Inspect, holding(k, time.Second)) // the nodes' clocks jumped (H52)
		require.NoError(t, <-checked)
		require.Equal(t, worth(time.Second)-time.Millisecond, k.Remaining())
		pass(10 * time.Millisecond)
		all.answer(t, command.Extend, command.Reply{Outcome: command.Granted})
		require.NoError(t, <-extended)
		require.Equal(t, worth(longer)-20*time.Millisecond, k.Remaining())
		// A Check that was sent after the extension lowers the end again.
		pass(10 * time.Millisecond)
		go func() { checked <- k.Check(bg) }()
		synctest.Wait()
		all.answer(t, command.Inspect, holding(k, time.Second))
		require.NoError(t, <-checked)
		require.Equal(t, worth(time.Second)-time.Millisecond, k.Remaining())
		require.NoError(t, k.Release(bg))
	})
}

// Check lowers the end, and it passes before the extension is answered. The hold has ended then,
// and stays ended (H114).
func TestAnExtensionDoesNotReviveWhatACheckHasEnded(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", 10*time.Second)
		all := keep(nodes, command.Inspect, command.Extend)
		checked, extended := make(chan error, 1), make(chan error, 1)
		go func() { extended <- k.Extend(bg, 20*time.Second) }()
		go func() { checked <- k.Check(bg) }()
		synctest.Wait()
		all.answer(t, command.Inspect, holding(k, 50*time.Millisecond))
		require.NoError(t, <-checked)
		pass(50 * time.Millisecond)
		all.answer(t, command.Extend, command.Reply{Outcome: command.Granted})
		require.ErrorIs(t, <-extended, ErrLost)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		for _, n := range nodes {
			require.Empty(t, n.held, "undone")
		}
	})
}
