package redlock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// docs/dev/hazards.md H40: two groups of clients with different lists of nodes do not exclude each
// other. The other group's marker is left as it is, whatever its run.
func TestAMarkerThatClientsDoNotAgreeOnIsRefusedAndLeft(t *testing.T) {
	field := func(i int, value string) func(m *fakeredis.Master) {
		return func(m *fakeredis.Master) {
			v, _ := m.Get(guard.Key)
			parts := strings.Split(v, "|")
			parts[i] = value
			m.Set(guard.Key, strings.Join(parts, "|"), 0)
		}
	}
	for what, change := range map[string]func(m *fakeredis.Master){
		"another version":      field(0, "1"),
		"another maxTTL":       field(3, "10001"),
		"another S":            field(4, "5000"),
		"another list":         field(5, "0123456789abcdef"),
		"another name":         field(6, "n9"),
		"another state":        field(7, "maybe"),
		"an unreadable value":  func(m *fakeredis.Master) { m.Set(guard.Key, "nonsense", 0) },
		"an empty value":       func(m *fakeredis.Master) { m.Set(guard.Key, "", 0) },
		"a list under the key": func(m *fakeredis.Master) { m.PushList(guard.Key) },
	} {
		for _, restarted := range []bool{false, true} {
			inBubble(t, 3, func(fl *testbed) {
				fl.guarded()
				fl.each(change)
				if restarted {
					fl.each(func(m *fakeredis.Master) { require.NoError(t, m.Restart(true)) })
				}
				before, _ := fl.masters[0].Get(guard.Key)
				l := fl.process().locker(WithRestartGuard(guardTTL))
				_, err := l.TryAcquire(bg, "a", time.Second)
				require.ErrorIs(t, err, ErrNoQuorum, what)
				require.ErrorIs(t, err, ErrUnfit, what)
				require.ErrorIs(t, err, ErrGuardMismatch, what)
				for _, word := range []string{"n1", guard.Key, "another list of nodes, another maxTTL or another name"} {
					require.ErrorContains(t, err, word, what)
				}
				pass(2 * guardTTL)
				require.ErrorIs(t, l.Healthy(bg), ErrNoQuorum)
				after, _ := fl.masters[0].Get(guard.Key)
				require.Equal(t, before, after, what)
				require.Zero(t, fl.keys("a"))
			})
		}
	}
}

func TestAnotherGuardIsRefusedByTheNodesOfTheFirst(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.guarded()
		_, err := fl.process().locker(WithRestartGuard(guardTTL+time.Second)).TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrUnfit)
		some := &testbed{t: fl.t, masters: fl.masters[:1], clock: fl.process().clock}
		_, err = some.locker(WithRestartGuard(guardTTL)).TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrUnfit, "another list")
		n, err := pool.Open(pool.Config{Name: "x", Address: "n1", Dial: fl.masters[0].Dial, Clock: fl.clock})
		require.NoError(t, err)
		l, err := New([]Node{n}, WithRestartGuard(guardTTL), WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		_, err = l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrUnfit, "another name")
		fl.each(func(m *fakeredis.Master) { require.Equal(t, "ok", state(m)) })
	})
}

// docs/dev/rules.md rule 17, docs/dev/hazards.md H112.
func TestAnUnguardedLockerRefusesGuardedNodesUnlessTheyAreExcepted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.guarded()
		_, err := fl.process().locker().TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrUnfit)
		require.ErrorIs(t, err, ErrGuardMismatch)
		for _, word := range []string{"n1 is guarded", guard.Key, "WithRestartGuard", "WithUnsafeNodes"} {
			require.ErrorContains(t, err, word)
		}
		k, err := fl.process().locker(WithUnsafeNodes("n1", "n2")).TryAcquire(bg, "a", 2*time.Second)
		require.NoError(t, err)
		fl.answered()
		require.Equal(t, 2, fl.keys("a"))
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/rules.md rule 17: clients of a version with another key for markers do not see this
// version's markers. A node on which such clients may still run does not vote, and its keys are
// left as they are.
func TestANodeWithAMarkerOfAnOlderVersionIsRefused(t *testing.T) {
	for what, opts := range map[string][]Option{"guarded": {WithRestartGuard(guardTTL)}, "without the guard": nil} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) { m.Set(guard.OldKey, "1|r|p|10000|0|f|n1|ok", 0) })
			l := fl.locker(opts...)
			_, err := l.TryAcquire(bg, "a", time.Second)
			require.ErrorIs(t, err, ErrNoQuorum, what)
			require.ErrorIs(t, err, ErrUnfit, what)
			require.ErrorIs(t, err, ErrGuardMismatch, what)
			for _, word := range []string{"n1 has the key redlock:node", "stop all clients of that version", "delete the key"} {
				require.ErrorContains(t, err, word, what)
			}
			r, _ := diagnosed(t, l)
			require.Equal(t, guard.StateForeign, r.Nodes[0].Guard, what)
			require.True(t, slices.ContainsFunc(r.Nodes[0].Findings, func(f doctor.Finding) bool {
				return f.Grade == doctor.Error && strings.HasPrefix(f.Text, "n1 has the key redlock:node")
			}), what)
			if opts != nil {
				_, err = l.Admit(bg)
				require.ErrorIs(t, err, ErrNotAdmitted)
			}
			require.Zero(t, fl.keys("a"))
			require.Zero(t, fl.keys(guard.Key), what)
			exempt := fl.process().locker(WithUnsafeNodes("n1", "n2"))
			k, err := exempt.TryAcquire(bg, "a", 2*time.Second)
			require.NoError(t, err, what)
			r, _ = diagnosed(t, exempt)
			require.True(t, slices.ContainsFunc(r.Nodes[0].Findings, func(f doctor.Finding) bool {
				return f.Grade == doctor.Warning && strings.HasPrefix(f.Text, "n1 has the key redlock:node") && strings.Contains(f.Text, "WithUnsafeNodes")
			}), what)
			require.NoError(t, k.Release(bg))
		})
	}
}

// The remedy in the error works, also for a client that runs meanwhile.
func TestANodeVotesAgainWithoutTheMarkerOfAnOlderVersion(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set(guard.OldKey, "1|r|p|10000|0|f|n1|ok", 0) })
		l := fl.locker()
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrUnfit)
		pass(time.Minute)
		_, err = l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrUnfit)
		fl.each(func(m *fakeredis.Master) { m.Del(guard.OldKey) })
		pass(11 * time.Second) // the next health check, and a dial
		k, err := l.TryAcquire(bg, "a", time.Second)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// This does not disturb a lock of a client that exempts the node.
func TestAConnectionToAnExemptedNodeWithAnOldMarkerStays(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set(guard.OldKey, "1|r|p|10000|0|f|n1|ok", 0) })
		l := fl.locker(WithUnsafeNodes("n1"))
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		before := fl.masters[0].Clients()[0]
		pass(30 * time.Second)
		require.Equal(t, before.ID(), fl.masters[0].Clients()[0].ID())
		require.NoError(t, k.Release(bg))
	})
}

// A node that is unfit by its own state may recover while a caller waits. A mismatch of settings
// does not.
func TestANodeThatIsUnfitForItselfIsNoMismatchOfGuards(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.SetInfo("role", "slave") })
		for _, opts := range [][]Option{nil, {WithRestartGuard(guardTTL)}} {
			_, err := fl.process().locker(opts...).TryAcquire(bg, "a", time.Second)
			require.ErrorIs(t, err, ErrUnfit)
			require.NotErrorIs(t, err, ErrGuardMismatch)
		}
	})
	inBubble(t, 3, func(fl *testbed) { // new, and therefore quarantined
		_, err := fl.process().locker(WithRestartGuard(guardTTL)).TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrQuarantined)
		require.NotErrorIs(t, err, ErrGuardMismatch)
	})
}

func TestSettingsOfTheGuardThatContradictEachOther(t *testing.T) {
	nodes := []Node{newFake("a")}
	for what, opts := range map[string][]Option{
		"repair alone":   {WithRepair()},
		"two bounds":     {WithRestartGuard(time.Minute), WithMaxTTL(time.Hour)},
		"the default":    {WithMaxTTL(DefaultMaxTTL), WithRestartGuard(time.Minute)},
		"too short":      {WithRestartGuard(time.Millisecond)},
		"none":           {WithRestartGuard(0)},
		"too long":       {WithRestartGuard(366 * 24 * time.Hour)},
		"no whole ms":    {WithRestartGuard(time.Second + time.Microsecond)},
		"a negative one": {WithRestartGuard(-time.Second)},
	} {
		_, err := New(nodes, opts...)
		require.ErrorIs(t, err, ErrInvalid, what)
	}
	l, err := New(nodes, WithRestartGuard(time.Minute), WithMaxTTL(time.Minute), WithRepair())
	require.NoError(t, err)
	_, err = l.TryAcquire(bg, "a", time.Minute+time.Millisecond)
	require.ErrorIs(t, err, ErrInvalid, "the guard's bound is every TTL's")
}
