package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// sound are the facts of a healthy master.
func sound() command.Facts {
	return command.Facts{
		RunID: "r", Version: "7.0.15", Mode: "standalone", Role: "master", Eviction: "noeviction",
		ReplID2: "0000000000000000000000000000000000000000",
	}
}

func TestAFitMasterHasNoFaults(t *testing.T) {
	require.Empty(t, faultsOf("a", 0, sound()))
	require.NoError(t, unfitError(nil))
}

// The text of a fault names the node and the remedy.
func TestEachFactThatMattersIsAFault(t *testing.T) {
	for what, c := range map[string]struct {
		change func(f *command.Facts)
		code   string
		words  []string
	}{
		"INFO denied": {
			func(f *command.Facts) { *f = command.Facts{Unread: "NOPERM no right to info"} },
			command.CodeUnreadable,
			[]string{"NOPERM no right to info", "ACL SETUSER", "+info"},
		},
		"INFO says nothing":  {func(f *command.Facts) { *f = command.Facts{} }, command.CodeUnreadable, []string{"run_id and role in INFO"}},
		"no run ID":          {func(f *command.Facts) { f.RunID = "" }, command.CodeUnreadable, []string{"does not report run_id in INFO", "redlocktest"}},
		"no role":            {func(f *command.Facts) { f.Role = "" }, command.CodeUnreadable, []string{"does not report role in INFO"}},
		"a Sentinel's ID":    {func(f *command.Facts) { *f = command.Facts{Mode: "sentinel"} }, command.CodeUnreadable, []string{"does not report run_id in INFO"}},
		"Sentinel":           {func(f *command.Facts) { f.Mode, f.Role = "sentinel", "" }, command.CodeSentinel, []string{"is a Sentinel"}},
		"Cluster":            {func(f *command.Facts) { f.Mode = "cluster" }, command.CodeCluster, []string{"cluster-enabled no"}},
		"replica":            {func(f *command.Facts) { f.Role = "slave" }, command.CodeReplica, []string{"is a replica", "REPLICAOF NO ONE"}},
		"writable replica":   {func(f *command.Facts) { f.Role, f.Writable = "slave", true }, command.CodeReplica, []string{"is a writable replica"}},
		"a new kind of role": {func(f *command.Facts) { f.Role = "loader" }, command.CodeReplica, nil},
		"Redis 4":            {func(f *command.Facts) { f.Version = "4.0.9" }, command.CodeVersion, []string{"Redis 4.0.9", "Redis 5"}},
		"another database":   {func(f *command.Facts) { f.Database = 3 }, command.CodeDatabase, []string{"database 3", "instead of 0"}},
		"locks are evicted": {
			func(f *command.Facts) { f.MaxMemory, f.Eviction = 1<<20, "volatile-lru" },
			command.CodeEviction,
			[]string{"volatile-lru", "maxmemory-policy noeviction"},
		},
		"all keys are": {func(f *command.Facts) { f.MaxMemory, f.Eviction = 1, "allkeys-random" }, command.CodeEviction, nil},
	} {
		f := sound()
		c.change(&f)
		all := faultsOf("node-a", 0, f)
		require.Len(t, all, 1, what)
		require.Equal(t, c.code, all[0].Code, what)
		for _, w := range append(c.words, "node-a") {
			require.Contains(t, all[0].Text, w, what)
		}
		require.ErrorIs(t, unfitError(all), command.ErrUnfit, what)
		require.ErrorContains(t, unfitError(all), all[0].Text, what)
	}
}

func TestWhatIsHarmlessIsNoFault(t *testing.T) {
	for what, change := range map[string]func(f *command.Facts){
		"they would be evicted":  func(f *command.Facts) { f.Eviction = "volatile-ttl" },
		"it has been promoted":   func(f *command.Facts) { f.ReplID2 = "00ab" },
		"memory is bounded":      func(f *command.Facts) { f.MaxMemory = 1 << 30 },
		"a server without both":  func(f *command.Facts) { f.Eviction, f.ReplID2 = "", "" },
		"a version of its own":   func(f *command.Facts) { f.Version = "unstable" },
		"a version of two parts": func(f *command.Facts) { f.Version = "10.1" },
	} {
		f := sound()
		change(&f)
		require.Empty(t, faultsOf("a", 0, f), what)
	}
}

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
			first := acquiring("A", longTTL, "k").on(n) // waits for the dial
			requireUnfit(t, first.reply(t), c.words)
			m.ForgetLog()
			began := time.Now()
			for _, call := range oneOfEach() {
				if !call.Op.Undoes() {
					requireUnfit(t, call.on(n).reply(t), c.words)
				}
			}
			require.Zero(t, time.Since(began), "at once")
			require.Empty(t, quiet(m), "nothing was sent")

			m.Set("k", "A", longTTL)
			require.Equal(t, command.Granted, releasing("A", "k").outcome(t, n), "%s: an undo is sent all the same", what)

			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, command.Granted, acquiring("B", longTTL, "k").outcome(t, n), what)
			require.Zero(t, n.Stats().DialFailures)
		})
	}
}

func TestAFitNodeThatBecomesUnfitIsFoundOutWithinTenSeconds(t *testing.T) {
	for what, c := range makeUnfit {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			acquiring := func(token, key string) *call { return acquiring(token, longTTL, key) }
			require.Equal(t, command.Granted, acquiring("A", "k").outcome(t, n))
			c.breaks(m)
			time.Sleep(healthyEvery + n.cfg.RedialMin)
			requireUnfit(t, acquiring("B", "l").on(n).reply(t), c.words)
			require.Equal(t, command.Granted, releasing("A", "k").outcome(t, n), what)
			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, command.Granted, acquiring("C", "l").outcome(t, n), what)
		})
	}
}

func TestAnExceptedNodeVotesWhateverIsFound(t *testing.T) {
	for what, c := range makeUnfit {
		onMaster(t, c.breaks, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			except(n, true)
			require.Equal(t, command.Granted, acquiring("A", longTTL, "A").outcome(t, n), what)
			except(n, false)
			requireUnfit(t, acquiring("B", longTTL, "B").on(n).reply(t), c.words)
		})
	}
}

// Valkey has another name for the mode.
func TestTheModeOfAServerIsReadFromValkeyToo(t *testing.T) {
	for info, mode := range map[string]string{
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel\r\n":   "sentinel",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:standalone\r\n": "standalone",
		"redis_version:7.0.15\r\nredis_mode:cluster\r\n":                          "cluster",
	} {
		var f facts
		f.parse(info, nil)
		require.Equal(t, mode, f.Mode)
	}
}

// docs/dev/hazards.md H39: a wrapped pool's dial, or a proxy, may also select another database.
func TestAConnectionOnAnotherDatabaseDoesNotVote(t *testing.T) {
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		m.FailWith("CLIENT INFO", "+id=5 name=go-redlock db=0 resp=2")
		only(t, m).Drop()
		time.Sleep(time.Second)
		requireUnfit(t, pinging().on(n).reply(t), "database 0", "instead of 2")
	})
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Deny("CLIENT INFO") // or before Redis 6.2: the earlier selection remains
		synctest.Wait()
		require.Equal(t, command.Granted, pinging().outcome(t, n))
	})
}

// Redis answers INFO while it loads. A user without the right to SCRIPT learns of the loading from
// no other answer.
func TestAServerThatLoadsCountsAsAFailedDialAlsoWhereINFOAloneSaysSo(t *testing.T) {
	loading := func(m *fakeredis.Master) { m.SetInfo("loading", "1") }
	onMaster(t, loading, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		r := pinging().on(n).reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "LOADING")
		require.Zero(t, n.Stats().Connected)
		m.SetInfo("loading", "")
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, pinging().outcome(t, n))
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
		require.Equal(t, command.Granted, acquiring("A", longTTL, "a").outcome(t, n))
		requireUnfit(t, acquiring("A", longTTL, "b").on(second).reply(t), "n1 and n2 are the same server")
		require.NoError(t, n.Close())
		require.Equal(t, command.Granted, acquiring("A", longTTL, "b").outcome(t, second))
	})
}
