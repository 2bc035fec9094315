package redlock

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Otherwise the lock would stay on a bare quorum although WithRepair was given, and one more failure would end it.
func TestEveryNodeThatLostItsCopyIsRepaired(t *testing.T) {
	inBubbles(t, 5, func(fl *testbed) {
		k := take(fl.t, fl.guarded(WithRepair()), "a", 4*time.Second)
		for _, m := range fl.masters[1:3] {
			m.Del("a")
		}
		require.NoError(fl.t, k.Extend(bg, 4*time.Second))
		fl.heldEverywhere("a")
		require.NoError(fl.t, k.Release(bg))
		fl.releasedEverywhere("a")
	})
}

// Otherwise a lock that has ended by WithMaxHold would create its keys again.
func TestARepairIsNotSentAfterTheMaximumHold(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed(WithRestartGuard(guardTTL), WithRepair())
		k := takeAll(t, l, names, 4*time.Second, WithMaxHold(3*time.Second))
		fl.masters[2].Del(names[0])
		p.within(command.Repair, sync.OnceFunc(func() { fl.clock.Jump(3 * time.Second) }))
		require.NoError(t, k.Extend(bg, 5*time.Second))
		fl.answered()
		require.Len(t, p.of(command.Repair), 1, "submitted, and")
		require.Zero(t, repairs(fl.masters[2]))
		require.ErrorIs(t, k.Release(bg), ErrMaxHold)
	})
}
