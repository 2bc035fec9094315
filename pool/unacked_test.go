package pool

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// inTransit has n lose its connection to m while the acquires are in transit, and returns when their
// undos were executed on the next one. release lets the master execute the acquires.
func inTransit(t *testing.T, m *fakeredis.Master, n *Node, undos []*call, acquires ...*call) (release func()) {
	t.Helper()
	var lost []*fakeredis.Client
	for some := range slices.Chunk(acquires, 200) { // what a connection takes while nobody reads
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		clients := m.Clients()
		old := clients[len(clients)-1]
		old.HoldRequests()
		for _, c := range some {
			c.On(n)
		}
		synctest.Wait()
		old.Drop()
		for _, c := range some {
			require.Equal(t, command.Unknown, c.Reply(t).Outcome)
		}
		lost = append(lost, old)
		time.Sleep(time.Second) // a connection that lived shorter counts as a failed dial
	}
	for _, c := range undos {
		require.Equal(t, command.Refused, c.Within(n, time.Hour).On(n).Reply(t).Outcome)
	}
	return func() {
		for _, old := range lost {
			old.Release()
		}
	}
}

// withoutKill is inBubble for a user that may not kill connections.
func withoutKill(t *testing.T, change func(c *Config), f func(t *testing.T, m *fakeredis.Master, n *Node)) {
	t.Helper()
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }, change, f)
}

// Whatever was in transit, an idle client sends at most two commands a second on a connection, and
// deletes within sweepRound what the acquires make: all of it in calls of up to maxSwept, or, if a
// call may have the keys of one lock only, name by name.
func TestSweepsAreFewAndSoon(t *testing.T) {
	for _, c := range []struct {
		what    string
		many    int
		names   int
		proxied bool
		round   time.Duration
	}{
		{"one", 1, 1, false, sweepRound},
		{"many", 2*maxSwept + 1, 2*maxSwept + 1, false, sweepRound},
		{"many of one name, behind a proxy", maxSwept / 2, 1, true, sweepRound},
		{"some names, behind a proxy", 8, 8, true, sweepRound},
		{"more names, behind a proxy", 40, 40, true, 40 * sweepPause},
	} {
		withoutKill(t, func(cfg *Config) { cfg.Proxied, cfg.Queue = c.proxied, c.many+10 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			acquires, undos := make([]*call, c.many), make([]*call, c.many)
			for i := range acquires {
				token, name := "A"+strconv.Itoa(i), strconv.Itoa(i%c.names)
				acquires[i], undos[i] = acquiring(token, time.Hour, name), releasing(token, name)
			}
			release := inTransit(t, m, n, undos, acquires...)
			require.Zero(t, n.Stats().ParkedUndos, "%s: the places are for undos that a server answers by errors", c.what)
			time.Sleep(time.Second) // what was sent for the undos themselves is over
			m.ForgetLog()
			for range 3 {
				time.Sleep(20 * time.Second)
				require.LessOrEqual(t, len(names(m)), 2*20, c.what)
				m.ForgetLog()
			}
			release()
			synctest.Wait()
			require.Len(t, m.Keys(), c.names, "%s: the ghosts are there", c.what)
			time.Sleep(c.round + sweepPause)
			require.Empty(t, m.Keys(), c.what)
		})
	}
}

// A proxy may serve each key from another server.
func TestSweepsBehindAProxyHaveTheKeysOfOneLock(t *testing.T) {
	withoutKill(t, func(c *Config) { c.Proxied = true }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		inTransit(t, m, n, []*call{releasing("A", "a"), releasing("B", "b"), releasing("C", "a")},
			acquiring("A", time.Hour, "a"), acquiring("B", time.Hour, "b"), acquiring("C", time.Hour, "a"))
		m.ForgetLog()
		time.Sleep(time.Minute)
		swept := make(map[string]int)
		for _, e := range m.Log() {
			if e.Name == "EVALSHA" && sub(e) == "sweep" {
				swept[strings.Join(e.Args[1:], " ")]++
			}
		}
		require.Len(t, swept, 2)
		require.Positive(t, swept["1 b B"])
		require.Positive(t, swept["2 a a A C"]+swept["2 a a C A"])
	})
}

// A sweep deletes only what holds the token of the undone acquire, and announces it.
func TestASweepDeletesAndAnnouncesOnlyItsOwn(t *testing.T) {
	withoutKill(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		release := inTransit(t, m, n,
			[]*call{releasing("A", "a", "l"), releasing("B", "b"), releasing("C", "c")},
			acquiring("A", time.Hour, "a", "l"), acquiring("B", time.Hour, "b"), acquiring("C", time.Hour, "c"), acquiring("H", time.Hour, "held"))
		m.Set("b", "another's", time.Hour)
		m.PushList("c")
		listener := raw(t, m)
		defer listener.Close()
		require.NoError(t, listener.Send("SUBSCRIBE", "redlock:free:a", "redlock:free:b", "redlock:free:l"))
		require.NoError(t, listener.Flush())
		for range 3 {
			_, err := listener.Receive()
			require.NoError(t, err)
		}
		release()
		time.Sleep(sweepRound)
		require.ElementsMatch(t, []string{"b", "c", "held"}, m.Keys(), "nobody has undone the last one")
		var freed []string
		for range 2 {
			message, err := redis.Strings(listener.Receive())
			require.NoError(t, err)
			freed = append(freed, message[1])
		}
		require.ElementsMatch(t, []string{"redlock:free:a", "redlock:free:l"}, freed)
	})
}

// A lock with a minimum hold is released by a Shorten. Until the hold is over its keys are left alone.
func TestNothingIsSweptUnderAMinimumHold(t *testing.T) {
	const hold = 10 * time.Second
	withoutKill(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		release := inTransit(t, m, n, []*call{shortening("A", hold, "k")}, acquiring("A", time.Hour, "k"))
		release()
		time.Sleep(hold - time.Second)
		require.Equal(t, []string{"k"}, m.Keys())
		time.Sleep(time.Second + sweepRound)
		require.Empty(t, m.Keys())
	})
}

// Sweeps follow a slot that moves, and each shard has its own.
func TestSweepsFollowTheirSlot(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		from, to := cl.Owner("foo"), others(cl, "foo")[0]
		from.Deny("CLIENT KILL")
		release := inTransit(t, from, n, []*call{releasing("A", "foo")}, acquiring("A", time.Hour, "foo"))
		release()
		synctest.Wait()
		require.Equal(t, []string{"foo"}, from.Keys(), "the ghost is there")
		cl.MoveSlot("foo", to)
		require.Equal(t, []string{"foo"}, to.Keys())
		time.Sleep(sweepRound + sweepPause)
		require.Empty(t, to.Keys())
	})
}

// The late acquire is executed between two sweeps, and the server restarts with its data: the old
// connections are gone then, and nothing comes late any more.
func TestWhatCameBeforeARestartIsSwept(t *testing.T) {
	withoutKill(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		release := inTransit(t, m, n, []*call{releasing("A", "a")}, acquiring("A", time.Hour, "a"))
		time.Sleep(30*time.Second + sweepPause/2) // between two sweeps
		release()
		synctest.Wait()
		require.Equal(t, []string{"a"}, m.Keys(), "the ghost is there")
		require.NoError(t, m.Restart(true))
		time.Sleep(2 * sweepRound)
		require.Empty(t, m.Keys())
		time.Sleep(4 * sweepRound)
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Empty(t, quiet(m), "not for ever")
	})
}

// A master that has lost its slots is retired sooner than each name was swept once.
func TestWhatCameBeforeASlotMovedIsSwept(t *testing.T) {
	for _, many := range []int{1, 40} {
		for _, dead := range []bool{false, true} {
			inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
				from, to := cl.Owner("foo"), cl.Add()
				from.Deny("CLIENT KILL")
				var undos, acquires []*call
				for i := range many {
					key := "{foo}" + strconv.Itoa(i)
					acquires, undos = append(acquires, acquiring("A"+key, time.Hour, key)), append(undos, releasing("A"+key, key))
				}
				release := inTransit(t, from, n, undos, acquires...)
				time.Sleep(30*time.Second + sweepPause/2) // between two sweeps
				release()
				synctest.Wait()
				require.NotEmpty(t, from.Keys())
				cl.TakeSlot(from, to, true)
				if dead {
					from.Stop()
				}
				time.Sleep(2 * (10*time.Second + 100*time.Millisecond))
				require.Empty(t, to.Keys(), "%d names, dead %v", many, dead)
			})
		}
	}
}

// No connection lives as long as the pause between two sweeps.
func TestSweepsComeThoughConnectionsEndSoon(t *testing.T) {
	withoutKill(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		release := inTransit(t, m, n, []*call{releasing("A", "a")}, acquiring("A", time.Hour, "a"))
		release()
		synctest.Wait()
		for range 20 {
			for m.Connections() == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(sweepPause / 2)
			for _, c := range m.Clients() {
				c.Drop()
			}
			synctest.Wait()
		}
		require.Empty(t, m.Keys())
	})
}

func TestASweepHasAThousandKeysAtMost(t *testing.T) {
	withoutKill(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		var acquires, undos []*call
		for i := range 60 {
			var names []string
			for j := range 20 {
				names = append(names, strconv.Itoa(i)+"-"+strconv.Itoa(j))
			}
			acquires, undos = append(acquires, acquiring("A"+strconv.Itoa(i), time.Hour, names...)), append(undos, releasing("A"+strconv.Itoa(i), names...))
		}
		inTransit(t, m, n, undos, acquires...)
		m.ForgetLog()
		time.Sleep(10 * time.Second)
		var most int
		for _, e := range m.Log() {
			if e.Name == "EVALSHA" && sub(e) == "sweep" {
				keys, err := strconv.Atoi(e.Args[1])
				require.NoError(t, err)
				most = max(most, keys)
			}
		}
		require.Equal(t, maxSwept, most)
	})
}

// Beside checks and probes that come often there are no sweeps, or fewer.
func TestAFailingNodeIsSweptWithinTheSameBound(t *testing.T) {
	const many = 40
	for what, fail := range map[string]func(m *fakeredis.Master){
		"every command": func(m *fakeredis.Master) { m.FailWith("*", busy) },
		"locks only":    func(m *fakeredis.Master) { failing(m, busy) },
	} {
		for _, parked := range []bool{false, true} {
			withoutKill(t, func(c *Config) { c.Proxied = true }, func(t *testing.T, m *fakeredis.Master, n *Node) {
				var acquires, undos []*call
				for i := range many {
					token, name := "A"+strconv.Itoa(i), strconv.Itoa(i)
					acquires, undos = append(acquires, acquiring(token, time.Hour, name)), append(undos, releasing(token, name))
				}
				inTransit(t, m, n, undos, acquires...)
				if parked {
					m.Set("p", "P", time.Hour)
				}
				fail(m)
				if parked {
					require.True(t, undoing("P", "p").Within(n, time.Hour).On(n).Reply(t).Retrying)
				}
				time.Sleep(30 * time.Second)
				m.ForgetLog()
				time.Sleep(20 * time.Second)
				require.LessOrEqual(t, len(names(m)), 2*20, "%s, parked %v: %v", what, parked, names(m))
			})
		}
	}
}
