package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// sound are the facts of a master with which nothing is wrong.
func sound() wire.Facts {
	return wire.Facts{
		RunID: "r", Version: "7.0.15", Mode: "standalone", Role: "master", Eviction: "noeviction",
		ReplID2: "0000000000000000000000000000000000000000",
	}
}

func TestASoundMasterHasNoFindings(t *testing.T) {
	require.Empty(t, findings("a", 0, sound()))
	require.NoError(t, unfitError(nil))
}

// What is wrong is told in words that name the node and the cure.
func TestEachFactThatMattersIsAFinding(t *testing.T) {
	for what, c := range map[string]struct {
		change func(f *wire.Facts)
		grade  wire.Grade
		code   string
		words  []string
	}{
		"INFO denied": {
			func(f *wire.Facts) { *f = wire.Facts{Unread: "NOPERM no right to info"} },
			wire.Error, wire.CodeUnreadable,
			[]string{"NOPERM no right to info", "ACL SETUSER", "+info"},
		},
		"INFO says nothing":  {func(f *wire.Facts) { *f = wire.Facts{} }, wire.Error, wire.CodeUnreadable, []string{"INFO"}},
		"no run ID":          {func(f *wire.Facts) { f.RunID = "" }, wire.Error, wire.CodeUnreadable, nil},
		"no role":            {func(f *wire.Facts) { f.Role = "" }, wire.Error, wire.CodeUnreadable, nil},
		"Sentinel":           {func(f *wire.Facts) { f.Mode, f.Role = "sentinel", "" }, wire.Error, wire.CodeSentinel, []string{"is a Sentinel"}},
		"Cluster":            {func(f *wire.Facts) { f.Mode = "cluster" }, wire.Error, wire.CodeCluster, []string{"cluster-enabled no"}},
		"replica":            {func(f *wire.Facts) { f.Role = "slave" }, wire.Error, wire.CodeReplica, []string{"is a replica", "REPLICAOF NO ONE"}},
		"writable replica":   {func(f *wire.Facts) { f.Role, f.Writable = "slave", true }, wire.Error, wire.CodeReplica, []string{"is a writable replica"}},
		"a new kind of role": {func(f *wire.Facts) { f.Role = "loader" }, wire.Error, wire.CodeReplica, nil},
		"Redis 4":            {func(f *wire.Facts) { f.Version = "4.0.9" }, wire.Error, wire.CodeVersion, []string{"Redis 4.0.9", "Redis 5"}},
		"another database":   {func(f *wire.Facts) { f.Database = 3 }, wire.Error, wire.CodeDatabase, []string{"database 3", "instead of 0"}},
		"locks are evicted": {
			func(f *wire.Facts) { f.MaxMemory, f.Eviction = 1<<20, "volatile-lru" },
			wire.Error, wire.CodeEviction,
			[]string{"volatile-lru", "maxmemory-policy noeviction"},
		},
		"all keys are":         {func(f *wire.Facts) { f.MaxMemory, f.Eviction = 1, "allkeys-random" }, wire.Error, wire.CodeEviction, nil},
		"they would be":        {func(f *wire.Facts) { f.Eviction = "volatile-ttl" }, wire.Note, wire.CodeEviction, nil},
		"the AOF fails":        {func(f *wire.Facts) { f.AOFFails = true }, wire.Warning, wire.CodePersistence, []string{"append-only"}},
		"the snapshot fails":   {func(f *wire.Facts) { f.SnapshotFails = true }, wire.Warning, wire.CodePersistence, []string{"snapshot"}},
		"it has been promoted": {func(f *wire.Facts) { f.ReplID2 = "00ab" }, wire.Note, wire.CodeHistory, nil},
	} {
		f := sound()
		c.change(&f)
		all := findings("node-a", 0, f)
		require.Len(t, all, 1, what)
		require.Equal(t, c.grade, all[0].Grade, what)
		require.Equal(t, c.code, all[0].Code, what)
		for _, w := range append(c.words, "node-a") {
			require.Contains(t, all[0].Text, w, what)
		}
		if c.grade == wire.Error {
			require.ErrorIs(t, unfitError(all), ErrUnfit, what)
			require.ErrorContains(t, unfitError(all), all[0].Text, what)
		} else {
			require.NoError(t, unfitError(all), what)
		}
	}
}

func TestWhatIsHarmlessIsNoFinding(t *testing.T) {
	for what, change := range map[string]func(f *wire.Facts){
		"memory is bounded":      func(f *wire.Facts) { f.MaxMemory = 1 << 30 },
		"a server without both":  func(f *wire.Facts) { f.Eviction, f.ReplID2 = "", "" },
		"a version of its own":   func(f *wire.Facts) { f.Version = "unstable" },
		"a version of two parts": func(f *wire.Facts) { f.Version = "10.1" },
		"replicas of its own":    func(f *wire.Facts) { f.Replicas = 2 },
	} {
		f := sound()
		change(&f)
		require.Empty(t, findings("a", 0, f), what)
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
			require.Equal(t, wire.Granted, releasing("A", "k").outcome(t, n), "%s: an undo is sent all the same", what)

			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, wire.Granted, acquiring("B", longTTL, "k").outcome(t, n), what)
			require.Zero(t, n.Stats().DialFailures)
		})
	}
}

func TestAFitNodeThatBecomesUnfitIsFoundOutWithinTenSeconds(t *testing.T) {
	for what, c := range makeUnfit {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, wire.Granted, acquiring("A", longTTL, "k").outcome(t, n))
			c.breaks(m)
			time.Sleep(healthyEvery + n.cfg.RedialMin)
			requireUnfit(t, acquiring("B", longTTL, "l").on(n).reply(t), c.words)
			require.Equal(t, wire.Granted, releasing("A", "k").outcome(t, n), what)
			c.mend(m)
			time.Sleep(unhealthyEvery + n.cfg.RedialMin)
			require.Equal(t, wire.Granted, acquiring("C", longTTL, "l").outcome(t, n), what)
		})
	}
}

func TestAnExceptedNodeVotesWhateverIsFound(t *testing.T) {
	for what, c := range makeUnfit {
		onMaster(t, c.breaks, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			for token, fleet := range map[string]*wire.NodeSet{"A": wire.NewNodeSet(true), "B": wire.NewNodeSet(false, "n0", "n1")} {
				call := acquiring(token, longTTL, token)
				call.req.NodeSet = fleet
				require.Equal(t, wire.Granted, call.outcome(t, n), what)
			}
			call := acquiring("C", longTTL, "C")
			call.req.NodeSet = wire.NewNodeSet(false, "n2")
			requireUnfit(t, call.on(n).reply(t), c.words)
		})
	}
}

// Valkey has another name for it.
func TestTheModeOfAServerIsReadFromValkeyToo(t *testing.T) {
	for info, mode := range map[string]string{
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel\r\n":   "sentinel",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:standalone\r\n": "standalone",
		"redis_version:7.0.15\r\nredis_mode:cluster\r\n":                          "cluster",
	} {
		var f facts
		f.parseServer(info)
		require.Equal(t, mode, f.Mode)
	}
}

// docs/dev/hazards.md H39: also a wrapped pool's dial, or a proxy, may select another one.
func TestAConnectionOnAnotherDatabaseDoesNotVote(t *testing.T) {
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
		m.FailWith("CLIENT INFO", "+id=5 name=go-redlock db=0 resp=2")
		only(t, m).Drop()
		time.Sleep(time.Second)
		requireUnfit(t, pinging().on(n).reply(t), "database 0", "instead of 2")
	})
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Deny("CLIENT INFO") // or before Redis 6.2: what was selected stands
		synctest.Wait()
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
	})
}

// Redis lets INFO through while it loads, and a user without the right to SCRIPT hears
// of it from nothing else.
func TestAServerThatLoadsCountsAsAFailedDialAlsoWhereINFOAloneSaysSo(t *testing.T) {
	loading := func(m *fakeredis.Master) { m.SetInfo("loading", "1") }
	onMaster(t, loading, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		r := pinging().on(n).reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "LOADING")
		require.Zero(t, n.Stats().Connected)
		m.SetInfo("loading", "")
		time.Sleep(time.Second)
		require.Equal(t, wire.Granted, pinging().outcome(t, n))
	})
}
