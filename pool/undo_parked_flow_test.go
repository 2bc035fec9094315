package pool

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// parkedMany lets a Cluster's node grant many locks of one slot, calls spoil, and waits until each
// undo is answered by an error.
func parkedMany(t *testing.T, n *Node, many int, spoil func()) {
	t.Helper()
	name := func(i int) (token, key string) { return fmt.Sprint("A", i), fmt.Sprintf("{foo}%d", i) }
	for i := range many {
		token, key := name(i)
		require.Equal(t, command.Granted, acquiring(token, 10*time.Minute, key).Outcome(t, n))
	}
	spoil()
	for i := range many {
		token, key := name(i)
		require.True(t, undoing(token, key).Within(n, 10*time.Minute).On(n).Reply(t).Retrying)
	}
}

// Undos for a slot without an owner stay where they are, because no member can execute them.
func TestParkedUndosOfASlotWithoutAnOwnerStayWhereTheyAre(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		const many, seconds = 300, 10
		parkedMany(t, n, many, func() { cl.TakeSlot(cl.Owner("foo"), nil, false) })
		time.Sleep(30 * time.Second) // the master without slots was dropped, and has passed them on once
		for _, m := range cl.Masters {
			m.ForgetLog()
		}
		time.Sleep(seconds * time.Second)
		for _, m := range cl.Masters {
			require.LessOrEqual(t, count(m, "EVALSHA release"), 2*seconds, m.Name())
		}
		require.InDelta(t, many, n.Stats().ParkedUndos, float64(len(cl.Masters)))
	})
}

// A probe that is sent on to another member shows that the server takes commands again.
func TestParkedUndosFollowAProbeThatIsSentOn(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		const many = 300
		from, to := cl.Owner("foo"), others(cl, "foo")[0]
		parkedMany(t, n, many, func() { failing(from, busy) })
		time.Sleep(3 * time.Second)
		cl.StartMigration("foo", to)
		for i := range many {
			cl.MigrateKey(fmt.Sprintf("{foo}%d", i))
		}
		failing(from, "")
		time.Sleep(5 * time.Second)
		require.Zero(t, n.Stats().ParkedUndos)
	})
}

// A server, or a proxy, ends each connection before an undo is answered.
func TestAnUndoEndsWithItsKeysWhereEveryConnectionEndsBeforeItsAnswer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.Equal(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n))
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if isOf(cmd, args, "A") {
				for _, c := range m.Clients() {
					go c.Drop()
				}
			}
			return "", false
		})
		m.SetDelay(5 * time.Millisecond)
		undo := undoing("A", "a").Within(n, longTTL).On(n)
		time.Sleep(longTTL - time.Second)
		require.True(t, undo.Pending())
		time.Sleep(3 * time.Second)
		require.False(t, undo.Pending())
		synctest.Wait()
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Zero(t, count(m, "EVALSHA release"))
	})
}

// Acquires without an undo on this connection are forgotten after a while.
func TestAcquiresThatExecutedNothingAreRememberedForAWhile(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		failing(m, "NOREPLICAS x")
		for i := range maxParked {
			require.Equal(t, command.Failed, acquiring(fmt.Sprint("D", i), time.Second, "d").Outcome(t, n))
		}
		time.Sleep(time.Minute)
		require.Equal(t, command.Failed, acquiring("A", longTTL, "a").Outcome(t, n))
		require.False(t, undoing("A", "a").Within(n, longTTL).On(n).Reply(t).Retrying)
		require.Zero(t, n.Stats().ParkedUndos)
	})
}
