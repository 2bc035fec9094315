package pool

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H95, docs/dev/rules.md rule 6: in all of these tests a connection ends with
// an acquire that the master has not read yet, and an undo uses the next connection.

// The control, by hand: the undo overtakes the acquire if it is not repeated and the connection is
// not killed.
func TestWithoutAKillOrARepetitionAGhostIsLeft(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, _ *Node) {
		first, second := raw(t, m), raw(t, m)
		defer second.Close()
		id, err := redis.Int64(first.Do("CLIENT", "ID"))
		require.NoError(t, err)
		m.Client(id).HoldRequests()
		require.NoError(t, first.Send("SET", "k", "A", "NX", "PX", 30000))
		require.NoError(t, first.Flush())
		require.NoError(t, first.Close())
		_, args := releasing("A", "k").AppendCall(nil, true)
		deleted, err := redis.Int(second.Do("EVAL", args...))
		require.NoError(t, err)
		require.Zero(t, deleted)
		m.Client(id).Release()
		synctest.Wait()
		require.Equal(t, []string{"k"}, m.Keys(), "the ghost")
		require.Equal(t, 30*time.Second, m.TTL("k"))
	})
}

// orphaned submits an acquire on a connection that then ends, with the acquire still in transit.
// The function release lets the acquire arrive.
func orphaned(t *testing.T, m *fakeredis.Master, n *Node, acquire *call) (release func()) {
	t.Helper()
	except(n, true)
	require.Equal(t, command.Granted, pinging().Outcome(t, n))
	old := only(t, m)
	old.HoldRequests()
	acquire.On(n)
	r := acquire.Reply(t) // after the hard timeout
	require.Equal(t, command.Unknown, r.Outcome)
	require.ErrorIs(t, r.Err, ErrSilent)
	require.False(t, acquire.Cancel(), "an undo is due")
	return old.Release
}

func TestAConnectionThatDiedWithAnAcquireIsKilledBeforeTheUndo(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"k", "l"}} {
		for round := range 20 {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				early := round%2 == 0 // the undo is submitted before the next connection
				m.ForgetLog()
				acquire := acquiring("A", longTTL, keys...)
				undo := releasing("A", keys...).Within(n, longTTL)
				release := orphaned(t, m, n, acquire)
				m.ForgetLog()
				if early {
					undo.On(n)
				}
				time.Sleep(time.Duration(round) * time.Second / 10)
				if !early {
					undo.On(n)
				}
				require.Equal(t, command.Refused, undo.Reply(t).Outcome)
				release()
				synctest.Wait()
				require.Empty(t, m.Keys(), "round %d", round)

				all := names(m)
				require.Equal(t, 1, count(m, "CLIENT KILL"))
				kill, undone := index(all, "CLIENT KILL"), index(all, "EVALSHA release")
				require.Less(t, kill, undone, "%v", all)
				time.Sleep(time.Minute)
				require.Equal(t, 1, count(m, "EVALSHA release"), "no repetition is needed")
				require.Zero(t, count(m, "SET")+count(m, "EVALSHA acquire"))
			})
		}
	}
}

func index(all []string, name string) int {
	for i, have := range all {
		if have == name {
			return i
		}
	}
	return -1
}

// The whole server is frozen, and continues at any time during the redials. The order in which it
// reads the connections is random.
func TestNoGhostIsLeftByAServerThatThawsDuringTheRedials(t *testing.T) {
	for round := range 40 {
		inBubble(t, func(c *Config) { c.DialTimeout = time.Second }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			m.Freeze()
			var acquires, undos []*call
			for i := range 10 {
				acquires = append(acquires, acquiring(fmt.Sprint("t", i), longTTL, fmt.Sprint("k", i)).On(n))
			}
			time.Sleep(500 * time.Millisecond)
			for i, c := range acquires {
				require.False(t, c.Cancel())
				if i%2 == 0 {
					undos = append(undos, releasing(c.Token(), c.Keys...).Within(n, longTTL).On(n))
				}
			}
			for _, c := range acquires {
				c.Reply(t)
			}
			time.Sleep(time.Duration(round) * 100 * time.Millisecond)
			for i, c := range acquires {
				if i%2 == 1 {
					undos = append(undos, releasing(c.Token(), c.Keys...).Within(n, longTTL).On(n))
				}
			}
			m.Unfreeze()
			for _, c := range undos {
				c.Reply(t)
			}
			synctest.Wait()
			require.Empty(t, m.Keys(), "round %d", round)
		})
	}
}

// If connections cannot be killed, sweeps follow the undos until the keys have expired.
func TestWithoutAKillSweepsFollowTheUndoUntilTheTTLHasPassed(t *testing.T) {
	const ttl = 30 * time.Second
	for name, change := range map[string]struct {
		config func(c *Config)
		master func(m *fakeredis.Master)
	}{
		"no right to CLIENT":      {nil, func(m *fakeredis.Master) { m.Deny("CLIENT") }},
		"no right to an ID":       {nil, func(m *fakeredis.Master) { m.Deny("CLIENT ID", "CLIENT INFO") }},
		"no right to CLIENT KILL": {nil, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }},
		"no right to INFO":        {nil, func(m *fakeredis.Master) { m.Deny("INFO") }},
		"a proxy":                 {func(c *Config) { c.Proxied = true }, func(*fakeredis.Master) {}},
	} {
		for _, late := range []time.Duration{0, 10 * time.Millisecond, 3100 * time.Millisecond, 11100 * time.Millisecond} {
			onMaster(t, change.master, change.config, func(t *testing.T, m *fakeredis.Master, n *Node) {
				began := time.Now()
				acquire := acquiring("A", ttl, "k")
				release := orphaned(t, m, n, acquire)
				undo := releasing("A", "k").Within(n, ttl).On(n)
				require.Equal(t, command.Refused, undo.Reply(t).Outcome, name)
				time.Sleep(late)
				release()
				synctest.Wait()
				require.Equal(t, []string{"k"}, m.Keys(), "%s: the ghost is there", name)
				time.Sleep(sweepRound + 100*time.Millisecond)
				require.Empty(t, m.Keys(), name)
				require.Less(t, time.Since(began), ttl+6*time.Second)

				time.Sleep(2 * ttl)
				m.ForgetLog()
				time.Sleep(10 * ttl)
				require.Empty(t, quiet(m), "%s: not for ever", name)
			})
		}
	}
}

// If the right to kill is missing, the kill is not tried for each connection that ended.
func TestARefusedKillIsNotTriedForEveryOldConnection(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for i := range 5 {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			clients := m.Clients()
			current := clients[len(clients)-1]
			current.HoldRequests()
			c := acquiring(strconv.Itoa(i), time.Hour, strconv.Itoa(i)).On(n)
			synctest.Wait()
			current.Drop()
			require.Equal(t, command.Unknown, c.Reply(t).Outcome)
			time.Sleep(time.Second)
		}
		require.Equal(t, 5, count(m, "CLIENT KILL"), "one for each dial")
		m.Deny()
		clients := m.Clients()
		clients[len(clients)-1].Drop()
		time.Sleep(time.Second)
		require.Equal(t, 10, count(m, "CLIENT KILL"), "and all of them once it is granted")
		require.Equal(t, 1, m.Connections())
	})
}

// An acquire that was answered, or never sent, leaves no connection to kill.
func TestAConnectionThatOwedNoAcquireIsNotKilled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("A", time.Hour, "k").Outcome(t, n))
		m.Freeze()
		extend, inspect := extending("A", time.Hour, "k").On(n), inspecting("k").On(n)
		undo := releasing("A", "k").Within(n, time.Hour).On(n)
		require.Equal(t, command.Unknown, extend.Reply(t).Outcome)
		require.Equal(t, command.Unknown, inspect.Reply(t).Outcome)
		m.Unfreeze()
		undo.Reply(t)
		require.Empty(t, m.Keys())
		require.Zero(t, count(m, "CLIENT KILL"))
	})
}

// A connection that ends while the kill is under way counts as a failed dial.
func TestADialThatEndsInTheKillHasFailed(t *testing.T) {
	inBubble(t, func(c *Config) { c.DialTimeout = time.Second }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		kills := 0
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd == "CLIENT" && args[0] == "KILL" {
				if kills++; kills < 3 {
					return "", true // never answered
				}
			}
			return "", false
		})
		release := orphaned(t, m, n, acquiring("A", time.Hour, "k"))
		undo := releasing("A", "k").Within(n, time.Hour).On(n)
		require.Equal(t, command.Refused, undo.Reply(t).Outcome)
		require.Equal(t, int64(2), n.Stats().DialFailures)
		release()
		synctest.Wait()
		require.Empty(t, m.Keys())
	})
}
