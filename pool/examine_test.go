package pool

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

const freeKey = "redlock:doctor:test"

func examining() *call { return newCall(func(r *command.Request) { command.NewExamine(r, freeKey) }) }

// examiningUnder examines for a node set, which may be nil, and with counters for fencing.
func examiningUnder(f *command.NodeSet, key string, counters ...string) *call {
	c := newCall(func(r *command.Request) { command.NewExamine(r, key, counters...) })
	c.req.NodeSet = f
	return c
}

func examined(t *testing.T, n *Node) *command.Diagnosis {
	t.Helper()
	r := examining().on(n).reply(t)
	require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
	return r.Diagnosis
}

// codes lists the codes of the findings, with their grades.
func codes(all []command.Finding) (list []string) {
	for _, f := range all {
		list = append(list, string(f.Grade)+" "+f.Code)
	}
	return list
}

func TestAnExaminationReportsWhatAMasterIs(t *testing.T) {
	inBubble(t, func(c *Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.SetDelay(20 * time.Millisecond)
		time.Sleep(time.Minute)
		e := examined(t, n)
		require.Equal(t, m.RunID(), e.RunID)
		require.Equal(t, "7.2.4", e.Version)
		require.Equal(t, "master", e.Role)
		require.Equal(t, 2, e.Database)
		require.Equal(t, 20*time.Millisecond, e.RoundTrip)
		require.InDelta(t, time.Minute, e.Uptime, float64(time.Second))
		require.True(t, e.ClockRead)
		require.Equal(t, -10*time.Millisecond, e.Offset, "the master looked when the question came, which took no time")
		require.Empty(t, e.MissingRights)
		require.Equal(t, []string{"warning persistence"}, codes(e.Findings))
		require.Empty(t, m.Keys())
		synctest.Wait()
		require.Equal(t, 1, m.Connections(), "that of the examination is gone")
	})
}

func TestAnExaminationReachesAnUnfitNode(t *testing.T) {
	for what, c := range makeUnfit {
		onMaster(t, c.breaks, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			all := examined(t, n).Findings
			require.Equal(t, command.Error, all[0].Grade, what)
			require.Contains(t, all[0].Text, c.words)
		})
	}
}

func TestAnExaminationChangesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", longTTL)
		examined(t, n)
		require.Equal(t, []string{"k"}, m.Keys())
		require.Equal(t, longTTL, m.TTL("k"))
	})
}

// Before Redis 6.2 CLIENT KILL ID 0 ends all connections but the caller's own.
func TestAnExaminationEndsNoConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		var ids []string
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd == "CLIENT" && args[0] == "KILL" {
				ids = append(ids, args[len(args)-1])
			}
			return "", false
		})
		require.NotContains(t, examined(t, n).MissingRights, "client|kill")
		require.Equal(t, []string{"9223372036854775807"}, ids)
	})
}

// docs/dev/hazards.md H46: a missing right is reported before a lock needs it.
func TestEachMissingRightIsNamed(t *testing.T) {
	for right, grade := range map[string]string{
		"set": "error", "get": "error", "del": "error", "exists": "error", "type": "error", "strlen": "error", "pttl": "error", "pexpire": "error",
		"evalsha": "error", "eval": "warning", "ping": "warning", "client|id": "warning", "client|kill": "warning",
		"publish": "warning", "subscribe": "warning", "pubsub|numsub": "note", "unsubscribe": "note", "client|info": "note", "client|setname": "note", "time": "note", "script|load": "note", "mget": "note",
	} {
		onMaster(t, func(m *fakeredis.Master) { m.Deny(right) }, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			e := examined(t, n)
			require.Equal(t, []string{right}, e.MissingRights)
			require.Equal(t, grade+" rights", codes(e.Findings)[0], right)
			require.Contains(t, e.Findings[0].Text, "n1 does not allow its user "+right)
			require.Contains(t, e.Findings[0].Text, "+"+right)
		})
	}
	onMaster(t, func(m *fakeredis.Master) { m.Deny("eval", "script|load") }, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		require.Equal(t, "error rights", codes(examined(t, n).Findings)[0], "then no script can get there")
	})
	onMaster(t, func(m *fakeredis.Master) { m.Deny("time") }, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		fenced := examiningUnder(nil, freeKey, command.FenceKey(freeKey, false)).on(n).reply(t)
		require.Equal(t, "error rights", codes(fenced.Diagnosis.Findings)[0], "then no counter can be raised")
		guarded := examiningUnder(guardedNodes(), freeKey).on(n).reply(t)
		require.Equal(t, "error rights", codes(guarded.Diagnosis.Findings)[0], "then no quarantine can begin")
	})
	for _, words := range []string{ // the words of Redis 7 and 6
		"NOPERM No permissions to access a channel",
		"NOPERM this user has no permissions to access one of the channels used as arguments",
	} {
		deaf := func(m *fakeredis.Master) { m.FailWith("PUBLISH", words); m.FailWith("SUBSCRIBE", words) }
		onMaster(t, deaf, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			e := examined(t, n)
			require.Equal(t, []string{"&redlock:free:*"}, e.MissingRights)
			require.Contains(t, e.Findings[0].Text, "ACL SETUSER … &redlock:free:*")
		})
	}
}

// rename-command removes commands, and an old server lacks some. Only the commands that a lock
// needs count.
func TestACommandThatTheServerDoesNotKnowIsNamed(t *testing.T) {
	for cmd, want := range map[string]string{"SET": "set", "EVALSHA": "evalsha", "PTTL": "pttl"} {
		onMaster(t, func(m *fakeredis.Master) {
			m.FailWith(cmd, "ERR unknown command '"+cmd+"', with args beginning with: 'x' ")
			m.FailWith("PUBSUB", "ERR Unknown subcommand or wrong number of arguments for 'numsub'")
		}, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
			e := examined(t, n)
			require.Empty(t, e.MissingRights)
			require.Equal(t, "error rights", codes(e.Findings)[0])
			require.Contains(t, e.Findings[0].Text, "n1 does not know commands that a lock needs: "+want+": ")
		})
	}
}

// The patterns are those of docs/operations.md, for a Locker with this prefix.
func TestEachPatternOfKeysThatIsDeniedIsNamed(t *testing.T) {
	const key = "app/" + freeKey
	for what, c := range map[string]struct {
		denied  string // the prefix of the keys that are denied
		keys    []string
		nodeSet *command.NodeSet
		want    []string
		grade   string
	}{
		"lock keys":                  {"app/", []string{key}, nil, []string{"~app/*"}, "warning"},
		"lock keys without a prefix": {"redlock:doctor:", []string{freeKey}, nil, nil, ""},
		"counters":                   {"redlock:fence:", []string{key, command.FenceKey(key, false)}, nil, []string{"~redlock:fence:app/*"}, "warning"},
		"counters without a prefix":  {"redlock:fence:", []string{freeKey, command.FenceKey(freeKey, false)}, nil, nil, ""},
		"tagged counters":            {"redlock:fence:{", []string{key, command.FenceKey(key, true)}, nil, []string{"~redlock:fence:{app/*"}, "warning"},
		"the marker":                 {guard.Key, []string{key}, nil, []string{"~redlock:guard"}, "warning"},
		"the guard's marker":         {guard.Key, []string{key}, guardedNodes(), []string{"~redlock:guard"}, "error"},
	} {
		deny := func(m *fakeredis.Master) {
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				return "-NOPERM No permissions to access a key", cmd != "PUBLISH" && len(args) > 0 && strings.HasPrefix(args[0], c.denied)
			})
		}
		onMaster(t, deny, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			e := examiningUnder(c.nodeSet, c.keys[0], c.keys[1:]...).on(n).reply(t).Diagnosis
			require.Equal(t, c.want, e.MissingRights, what)
			if c.grade != "" {
				require.Equal(t, c.grade+" rights", codes(e.Findings)[0], what)
				require.Contains(t, e.Findings[0].Text, "ACL SETUSER … "+c.want[0], what)
			}
			require.Empty(t, m.Keys())
		})
	}
}

func TestAnExaminationLeavesTheMarkerAlone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set(guard.Key, "marker", longTTL)
		r := examiningUnder(guardedNodes(), freeKey).on(n).reply(t)
		require.Empty(t, r.Diagnosis.MissingRights)
		value, _ := m.Get(guard.Key)
		require.Equal(t, "marker", value)
		require.Equal(t, longTTL, m.TTL(guard.Key))
	})
}

func TestTheClockOfANodeIsComparedWithOurs(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd != "TIME" {
				return "", false
			}
			ahead := time.Now().Add(5 * time.Second).UnixMicro()
			return "*2\r\n:" + strconv.FormatInt(ahead/1e6, 10) + "\r\n:" + strconv.FormatInt(ahead%1e6, 10), true
		})
		require.Equal(t, 5*time.Second, examined(t, n).Offset)
		m.Hook(nil)
		m.Deny("TIME")
		require.False(t, examined(t, n).ClockRead)
	})
}

func TestWhatCONFIGSaysOfPersistenceIsTakenIn(t *testing.T) {
	for fsync, want := range map[string][]string{"always": nil, "everysec": {"warning persistence"}, "no": {"warning persistence"}} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.SetInfo("aof_enabled", "1")
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				if cmd == "CONFIG" && args[1] == "appendfsync" {
					return "*2\r\n$11\r\nappendfsync\r\n" + bulk(fsync), true
				}
				return "", false
			})
			e := examined(t, n)
			require.Equal(t, "AOF, fsync "+fsync, e.Persistence())
			require.Equal(t, want, codes(e.Findings))
		})
	}
}

func TestWithoutTheRightToCONFIGTheFsyncPolicyIsUnknown(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CONFIG") }, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, []string{"warning persistence"}, codes(examined(t, n).Findings))
		m.SetInfo("aof_enabled", "1")
		e := examined(t, n)
		require.Equal(t, "AOF", e.Persistence())
		require.Equal(t, []string{"note persistence"}, codes(e.Findings))
		require.Empty(t, e.MissingRights, "it is no right that a lock needs")
	})
}

// It returns within the time given, with the reason, and leaves nothing behind.
func TestAnExaminationThatCantBeMadeSaysWhy(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		m.Freeze()
		began := time.Now()
		r := examining().within(n, 300*time.Millisecond).on(n).reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.ErrorIs(t, r.Err, command.ErrTimeout, "the dial timeout is longer")
		m.Stop()
		r = examining().on(n).reply(t)
		require.ErrorContains(t, r.Err, "connection refused")
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Freeze()
		var calls []*call
		for range maxExaminations + 1 {
			calls = append(calls, examining().on(n))
		}
		requireUnsent(t, calls[maxExaminations].reply(t))
		require.NoError(t, n.Close(), "which joins them")
		for _, c := range calls[:maxExaminations] {
			require.False(t, c.pending())
		}
		requireUnsent(t, examining().on(n).reply(t))
	})
}

// A question that its caller has given up would otherwise cost a connection.
func TestAnExaminationThatWasCancelledDialsNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.ForgetLog()
		c := newCall(func(r *command.Request) { command.NewExamine(r, "k") })
		c.Cancel()
		requireUnsent(t, c.on(n).reply(t))
		require.Empty(t, allNames(m))
	})
}
