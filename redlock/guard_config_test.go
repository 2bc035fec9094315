package redlock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
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
				remedy := "give all clients the same settings: "
				if !slices.Contains([]string{"another maxTTL", "another S", "another list", "another name"}, what) {
					remedy = "stop all clients, wait for the longest TTL, and delete "
				}
				require.ErrorContains(t, err, remedy, what)
				require.ErrorContains(t, err, guard.Key, what)
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				require.Less(t, elapsed(func() { _, err = l.Acquire(ctx, "a", time.Second) }), time.Minute, "waiting does not help")
				cancel()
				require.ErrorIs(t, err, ErrGuardMismatch)
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
		l, err := New([]*pool.Node{n}, WithRestartGuard(guardTTL), WithClock(fl.clock))
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
	nodes := []command.Voter{newFake("a")}
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
		_, err := newOver(nodes, opts...)
		require.ErrorIs(t, err, ErrInvalid, what)
	}
	l, err := newOver(nodes, WithRestartGuard(time.Minute), WithMaxTTL(time.Minute), WithRepair())
	require.NoError(t, err)
	_, err = l.TryAcquire(bg, "a", time.Minute+time.Millisecond)
	require.ErrorIs(t, err, ErrInvalid, "the guard's bound is every TTL's")
}
