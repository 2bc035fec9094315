package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// makeUnfit are the ways in which a master becomes unfit.
var makeUnfit = map[string]struct {
	breaks func(m *fakeredis.Master)
	mend   func(m *fakeredis.Master)
	words  string
}{
	"replica": {
		func(m *fakeredis.Master) { m.SetInfo("role", "slave") },
		func(m *fakeredis.Master) { m.SetInfo("role", "") }, "n1 is a replica",
	},
	"writable replica": {
		func(m *fakeredis.Master) { m.SetInfo("role", "slave"); m.SetInfo("slave_read_only", "0") },
		func(m *fakeredis.Master) { m.SetInfo("role", "") }, "n1 is a writable replica",
	},
	"Sentinel": {
		func(m *fakeredis.Master) { m.SetInfo("redis_mode", "sentinel") },
		func(m *fakeredis.Master) { m.SetInfo("redis_mode", "") }, "n1 is a Sentinel",
	},
	"Cluster": {
		func(m *fakeredis.Master) { m.SetInfo("redis_mode", "cluster") },
		func(m *fakeredis.Master) { m.SetInfo("redis_mode", "") }, "n1 is a member of a Redis Cluster",
	},
	"eviction": {
		func(m *fakeredis.Master) {
			m.SetInfo("maxmemory_policy", "volatile-lru")
			m.SetInfo("maxmemory", "3000000")
		},
		func(m *fakeredis.Master) { m.SetInfo("maxmemory_policy", "") }, "n1 deletes keys",
	},
	"version": {
		func(m *fakeredis.Master) { m.SetInfo("redis_version", "4.0.14") },
		func(m *fakeredis.Master) { m.SetInfo("redis_version", "") }, "n1 runs Redis 4.0.14",
	},
	"INFO": {
		func(m *fakeredis.Master) { m.Deny("INFO") },
		func(m *fakeredis.Master) { m.Deny() }, "n1 does not answer INFO (NOPERM",
	},
}

func TestAnUnfitNodeDoesNotVoteAndVotesOnceItIsCured(t *testing.T) {
	for what, c := range makeUnfit {
		onMaster(t, c.breaks, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			first := acquiring("A", longTTL, "k").On(n) // waits for the dial
			requireUnfit(t, first.Reply(t), c.words)
			m.ForgetLog()
			began := time.Now()
			for _, call := range oneOfEach() {
				if !call.Op.Undoes() {
					requireUnfit(t, call.On(n).Reply(t), c.words)
				}
			}
			require.Zero(t, time.Since(began), "at once")
			require.Empty(t, quiet(m), "nothing was sent")

			m.Set("k", "A", longTTL)
			require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n), "%s: an undo is sent all the same", what)

			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, command.Granted, acquiring("B", longTTL, "k").Outcome(t, n), what)
			require.Zero(t, n.Stats().DialFailures)
		})
	}
}

func TestAFitNodeThatBecomesUnfitIsFoundOutWithinTenSeconds(t *testing.T) {
	for what, c := range makeUnfit {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			acquiring := func(token, key string) *call { return acquiring(token, longTTL, key) }
			require.Equal(t, command.Granted, acquiring("A", "k").Outcome(t, n))
			c.breaks(m)
			time.Sleep(healthyEvery + n.cfg.RedialMin)
			requireUnfit(t, acquiring("B", "l").On(n).Reply(t), c.words)
			require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n), what)
			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, command.Granted, acquiring("C", "l").Outcome(t, n), what)
		})
	}
}

func TestAnExceptedNodeVotesWhateverIsFound(t *testing.T) {
	for what, c := range makeUnfit {
		onMaster(t, c.breaks, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			except(n, true)
			require.Equal(t, command.Granted, acquiring("A", longTTL, "A").Outcome(t, n), what)
			except(n, false)
			requireUnfit(t, acquiring("B", longTTL, "B").On(n).Reply(t), c.words)
		})
	}
}

// docs/dev/hazards.md H39: a wrapped pool's dial, or a proxy, may also select another database.
func TestAConnectionOnAnotherDatabaseDoesNotVote(t *testing.T) {
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.FailWith("CLIENT INFO", "+id=5 name=go-redlock db=0 resp=2")
		only(t, m).Drop()
		time.Sleep(time.Second)
		requireUnfit(t, pinging().On(n).Reply(t), "database 0", "instead of 2")
	})
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Deny("CLIENT INFO") // or before Redis 6.2: the earlier selection remains
		synctest.Wait()
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

// Redis answers INFO while it loads. A user without the right to SCRIPT learns of the loading from
// no other answer.
func TestAServerThatLoadsCountsAsAFailedDialAlsoWhereINFOAloneSaysSo(t *testing.T) {
	loading := func(m *fakeredis.Master) { m.SetInfo("loading", "1") }
	onMaster(t, loading, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		r := pinging().On(n).Reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "LOADING")
		require.Zero(t, n.Stats().Connected)
		m.SetInfo("loading", "")
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

// When a connection has ended, its server may have another name.
func TestTheEndOfAConnectionFreesTheServer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		second := opened(t, m, func(c *Config) { c.Name = "n2" })
		defer second.Close()
		servers := command.NewServers()
		join(n, command.Membership{Servers: servers})
		join(second, command.Membership{Servers: servers})
		require.Equal(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n))
		requireUnfit(t, acquiring("A", longTTL, "b").On(second).Reply(t), "n1 and n2 are the same server")
		require.NoError(t, n.Close())
		require.Equal(t, command.Granted, acquiring("A", longTTL, "b").Outcome(t, second))
	})
}
