package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// unanswered makes locks with a node that froze after it was sent a command that creates a key.
var unanswered = map[string]func(t *testing.T, l *Locker, m *fakeredis.Master) *Lock{
	"acquire": func(t *testing.T, l *Locker, m *fakeredis.Master) *Lock {
		t.Helper()
		m.Freeze()
		return take(t, l, "a", guardTTL)
	},
	"repair": func(t *testing.T, l *Locker, m *fakeredis.Master) *Lock {
		t.Helper()
		k := take(t, l, "a", guardTTL)
		m.Del("a")
		freezeAt(m, "repair+guard")
		require.NoError(t, k.Extend(bg, guardTTL))
		bedOf(l).answered()
		return k
	},
}

// The Locker that gave the claim also resumes it. Its release follows the commands of the first
// handle, so no key is left.
func TestAClaimThatIsReleasedInItsLockerLeavesNothingOfACommandThatWasNotAnswered(t *testing.T) {
	for what, acquired := range unanswered {
		for fate, pause := range map[string]func(m *fakeredis.Master){
			"it is answered late": func(*fakeredis.Master) { pass(time.Second) },
			"its connection ends": func(m *fakeredis.Master) {
				for _, c := range m.Clients() {
					c.Drop()
				}
				pass(time.Second)
			},
			"its connection falls silent":       func(*fakeredis.Master) { pass(guardTTL * 4 / 5) },
			"its node is frozen beyond the TTL": func(*fakeredis.Master) { pass(2 * guardTTL) },
		} {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.guarded(WithRepair())
				m := fl.masters[2]
				k := acquired(fl.t, l, m)
				require.Equal(fl.t, 2, fl.keys("a"))
				claim, err := k.Detach()
				require.NoError(fl.t, err)
				k, err = l.Resume(bg, claim)
				require.NoError(fl.t, err)
				require.NoError(fl.t, k.Release(bg))
				pause(m)
				m.Hook(nil)
				m.Unfreeze()
				pass(2 * time.Second)
				require.Zero(fl.t, fl.keys("a"), "%s, %s", what, fate)
				require.Zero(fl.t, booked(l), "%s, %s", what, fate)
			})
		}
	}
}

// Another process resumes the claim, and its release overtakes the command on another connection.
// The key that is left blocks one node of three until its TTL, so the lock stays available.
func TestACommandThatWasNotAnsweredWhenItsLockWasDetachedBlocksAMinorityUntilItsTTL(t *testing.T) {
	for what, acquired := range map[string]func(l *Locker, m *fakeredis.Master, client *fakeredis.Client) *Lock{
		"acquire": func(l *Locker, _ *fakeredis.Master, client *fakeredis.Client) *Lock {
			client.HoldRequests()
			return take(t, l, "a", guardTTL)
		},
		"repair": func(l *Locker, m *fakeredis.Master, client *fakeredis.Client) *Lock {
			k := take(t, l, "a", guardTTL)
			m.Del("a")
			holdAt(m, "repair+guard", client)
			require.NoError(t, k.Extend(bg, guardTTL))
			bedOf(l).answered()
			return k
		},
	} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(1) // what happens to n3 is determined
			l, m := fl.guarded(WithRepair()), fl.masters[2]
			client := m.Clients()[0]
			other := fl.guarded()
			k := acquired(l, m, client)
			require.Equal(fl.t, 2, fl.keys("a"))
			claim, err := k.Detach()
			require.NoError(fl.t, err)
			k, err = other.Resume(bg, claim)
			require.NoError(fl.t, err)
			require.NoError(fl.t, k.Release(bg))
			pass(time.Second)
			require.Zero(fl.t, fl.keys("a"), what)
			m.Hook(nil)
			client.Release()
			pass(time.Second)
			left, _ := m.Get("a")
			require.Equal(fl.t, claim.Token, left, what)
			require.LessOrEqual(fl.t, m.TTL("a"), claim.TTL, what)

			_, err = other.Resume(bg, claim)
			require.ErrorIs(fl.t, err, ErrLost, "it is no lock")
			k, err = other.TryAcquire(bg, "a", 2*time.Second)
			require.NoError(fl.t, err, what)
			require.NoError(fl.t, k.Release(bg))
			pass(claim.TTL)
			require.Zero(fl.t, fl.keys("a"), what)
		})
	}
}

// holdAt is freezeAt for one client only.
func holdAt(m *fakeredis.Master, script string, client *fakeredis.Client) {
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		for _, s := range command.Scripts() {
			if s.Name == script && cmd == "EVALSHA" && args[0] == s.Hash {
				client.HoldRequests()
			}
		}
		return "", false
	})
}
