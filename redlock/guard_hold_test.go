package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/rules.md rule 8: a key that a log or a replica brought back may have replaced another
// owner's grant.
func TestAnExtensionThatNeedsAQuarantinedNodeDoesNotCount(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others decide
		l := fl.guarded()
		k := take(t, l, "a", 4*time.Second)
		pass(time.Second)
		require.NoError(t, fl.masters[0].Restart(true))
		require.NoError(t, fl.masters[1].Restart(true))
		pass(500 * time.Millisecond)
		left := k.Remaining()
		err := k.Extend(bg, 4*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		var q *QuarantineError
		require.ErrorAs(t, err, &q)
		synctest.Wait()
		require.Equal(t, left, k.Remaining(), "until stays where it was")
		require.NoError(t, k.Context().Err(), "and it is not lost at once")
		require.Equal(t, 4*time.Second, fl.masters[0].TTL("a"), "it is done all the same")
		began := time.Now()
		err = k.Check(bg)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrLost)
		require.Equal(t, left, k.Remaining()+time.Since(began))
		pass(k.Remaining())
		require.ErrorIs(t, k.Release(bg), ErrLost)
	})
	// One node that does not count leaves a quorum.
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded(WithFencing())
		k := take(t, l, "a", 4*time.Second)
		require.NoError(t, fl.masters[0].Restart(true))
		pass(time.Second)
		require.NoError(t, k.Extend(bg, 4*time.Second))
		require.NoError(t, k.Check(bg))
		require.NoError(t, k.Release(bg))
	})
}

// Only nodes that vote can confirm a fence.
func TestAConfirmationOnAQuarantinedNodeDoesNotCount(t *testing.T) {
	for _, quarantined := range []bool{true, false} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2)
			l := fl.guarded(WithFencing())
			fl.masters[0].Set(command.FencePrefix+"a", "1946684800000000", time.Hour) // so that this node's counter is ahead
			fl.masters[2].Set("a", "another's", time.Minute)
			m := fl.masters[1]
			asked := false
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				if quarantined && isScriptNamed("confirm+guard", cmd, args) {
					asked = true
					restate(m, "q1")
				}
				return "", false
			})
			k, err := l.TryAcquire(bg, "a", 4*time.Second)
			if !quarantined {
				require.NoError(t, err)
				require.NoError(t, k.Release(bg))
				return
			}
			require.True(t, asked)
			require.ErrorIs(t, err, ErrNoQuorum)
		})
	}
}

func isScriptNamed(name, cmd string, args []string) bool {
	for _, s := range command.Scripts() {
		if s.Name == name && cmd == "EVALSHA" && args[0] == s.Hash {
			return true
		}
	}
	return false
}

// A claim that was released cannot be resumed, even if a log that lacks the release brings its key
// back.
func TestAReleasedClaimThatALogBroughtBackIsNotResumed(t *testing.T) {
	for _, restarted := range []bool{true, false} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.guarded()
			k := take(t, l, "a", 8*time.Second)
			claim, err := k.Detach()
			require.NoError(t, err)
			again, err := l.Resume(bg, claim)
			require.NoError(t, err)
			require.NoError(t, again.Release(bg))
			fl.answered()
			for _, m := range fl.masters[:2] {
				m.Set("a", claim.Token, 8*time.Second)
				if restarted {
					require.NoError(t, m.Restart(true))
				}
			}
			pass(500 * time.Millisecond)
			other := fl.process().locker(WithRestartGuard(guardTTL))
			_, err = other.Resume(bg, claim)
			if !restarted { // the negative control
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrQuarantined)
		})
	}
}
