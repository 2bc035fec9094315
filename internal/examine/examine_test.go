package examine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
)

func TestAnExaminationReportsWhatAMasterIs(t *testing.T) {
	inBubble(t, func(c *pool.Config) { c.Database = 2 }, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.SetDelay(20 * time.Millisecond)
		time.Sleep(time.Minute)
		e := examined(t, n, nil)
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
	for words, breaks := range map[string]func(m *fakeredis.Master){
		"n1 is a replica":                  func(m *fakeredis.Master) { m.SetInfo("role", "slave") },
		"n1 is a Sentinel":                 func(m *fakeredis.Master) { m.SetInfo("redis_mode", "sentinel") },
		"n1 does not answer INFO (NOPERM ": func(m *fakeredis.Master) { m.Deny("INFO") },
	} {
		onMaster(t, breaks, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			all := examined(t, n, nil).Findings
			require.Equal(t, Error, all[0].Grade)
			require.Contains(t, all[0].Text, words)
		})
	}
}

// A running script has all commands refused, and no right cures that.
func TestAServerThatIsBusyCantBeExamined(t *testing.T) {
	const busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Hook(func(int64, string, []string) (string, bool) { return "-" + busy, true })
		require.EqualError(t, why(t, n, time.Second), busy)
	})
	for _, denied := range []string{"NOPERM no right to info", "ERR unknown command 'INFO', with args beginning with: "} {
		onMaster(t, func(m *fakeredis.Master) { m.FailWith("INFO", denied) }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			require.Contains(t, codes(examined(t, n, nil).Findings), "error unreadable", denied)
		})
	}
}

// Its SET is refused before it is executed, whatever the arguments are.
func TestAMasterThatRefusesWritesIsAnError(t *testing.T) {
	for refusal, want := range map[string]string{
		"NOREPLICAS Not enough good replicas to write.":    "n1 refuses writes (NOREPLICAS Not enough good replicas to write.), so",
		"MISCONF Errors writing to the AOF file: No space": "n1 refuses writes (MISCONF Errors writing to the AOF file: No space), so",
		"NOPERM No permissions to access a key":            "",
		"MOVED 1 b:6379":                                   "",
		"ASK 1 b:6379":                                     "",
		"ERR unknown command 'SET'":                        "",
	} {
		onMaster(t, func(m *fakeredis.Master) { m.FailWith("SET", refusal) }, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, nil)
			if want == "" {
				require.NotContains(t, codes(e.Findings), "error writes", refusal)
				return
			}
			require.Equal(t, "error writes", codes(e.Findings)[0])
			require.Contains(t, e.Findings[0].Text, want)
			m.SetInfo("role", "slave")
			require.NotContains(t, codes(examined(t, n, nil).Findings), "error writes", "a replica has an error already")
		})
	}
}

func TestAnExaminationChangesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Set("k", "A", longTTL)
		examined(t, n, nil)
		require.Equal(t, []string{"k"}, m.Keys())
		require.Equal(t, longTTL, m.TTL("k"))
	})
}

// Before Redis 6.2 CLIENT KILL ID 0 ends all connections but the caller's own.
func TestAnExaminationEndsNoConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		var ids []string
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd == "CLIENT" && args[0] == "KILL" {
				ids = append(ids, args[len(args)-1])
			}
			return "", false
		})
		require.NotContains(t, examined(t, n, nil).MissingRights, "client|kill")
		require.Equal(t, []string{"9223372036854775807"}, ids)
	})
}

// docs/dev/hazards.md H46: a missing right is reported before a lock needs it.
func TestEachMissingRightIsNamed(t *testing.T) {
	for right, grade := range map[string]string{
		"set": "error", "get": "error", "del": "error", "exists": "error", "type": "error", "strlen": "error", "pttl": "error", "pexpire": "error",
		"evalsha": "error", "eval": "warning", "ping": "warning", "client|id": "note", "client|kill": "warning",
		"publish": "warning", "subscribe": "warning", "pubsub|numsub": "note", "unsubscribe": "note", "client|info": "note", "client|setname": "note", "time": "note", "script|load": "note", "mget": "note",
	} {
		onMaster(t, func(m *fakeredis.Master) { m.Deny(right) }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, nil)
			require.Equal(t, []string{right}, e.MissingRights)
			require.Equal(t, grade+" rights", codes(e.Findings)[0], right)
			require.Contains(t, e.Findings[0].Text, "n1 does not allow its user "+right)
			require.Contains(t, e.Findings[0].Text, "+"+right)
		})
	}
	onMaster(t, func(m *fakeredis.Master) { m.Deny("eval", "script|load") }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		require.Equal(t, "error rights", codes(examined(t, n, nil).Findings)[0], "then no script can get there")
	})
	onMaster(t, func(m *fakeredis.Master) { m.Deny("client|id", "client|info") }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		require.Equal(t, "warning rights", codes(examined(t, n, nil).Findings)[0], "then the node does not know its ID")
	})
	onMaster(t, func(m *fakeredis.Master) { m.Deny("time") }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		fenced := func(q *Question) { q.Counters = []string{command.FenceKey(freeKey, false)} }
		require.Equal(t, "error rights", codes(examined(t, n, fenced).Findings)[0], "then no counter can be raised")
		require.Equal(t, "error rights", codes(examined(t, n, guarded).Findings)[0], "then no quarantine can begin")
	})
	for _, words := range []string{ // the words of Redis 7 and 6
		"NOPERM No permissions to access a channel",
		"NOPERM this user has no permissions to access one of the channels used as arguments",
	} {
		deaf := func(m *fakeredis.Master) { m.FailWith("PUBLISH", words); m.FailWith("SUBSCRIBE", words) }
		onMaster(t, deaf, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, nil)
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
		}, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, nil)
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
		denied string   // the prefix of the keys that are denied
		keys   []string // the free key, and its counters
		guard  *guard.Settings
		want   []string
		grade  string
	}{
		"lock keys":                  {"app/", []string{key}, nil, []string{"~app/*"}, "warning"},
		"lock keys without a prefix": {"redlock:doctor:", []string{freeKey}, nil, nil, ""},
		"counters":                   {"redlock:fence:", []string{key, command.FenceKey(key, false)}, nil, []string{"~redlock:fence:app/*"}, "warning"},
		"counters without a prefix":  {"redlock:fence:", []string{freeKey, command.FenceKey(freeKey, false)}, nil, nil, ""},
		"tagged counters":            {"redlock:fence:{", []string{key, command.FenceKey(key, true)}, nil, []string{"~redlock:fence:{app/*"}, "warning"},
		"the marker":                 {guard.Key, []string{key}, nil, []string{"~redlock:guard"}, "warning"},
		"the guard's marker":         {guard.Key, []string{key}, guardSettings(), []string{"~redlock:guard"}, "error"},
	} {
		deny := func(m *fakeredis.Master) {
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				return "-NOPERM No permissions to access a key", cmd != "PUBLISH" && len(args) > 0 && strings.HasPrefix(args[0], c.denied)
			})
		}
		onMaster(t, deny, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, func(q *Question) { q.Key, q.Counters, q.Guard = c.keys[0], c.keys[1:], c.guard })
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
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Set(guard.Key, "marker", longTTL)
		require.Empty(t, examined(t, n, guarded).MissingRights)
		value, _ := m.Get(guard.Key)
		require.Equal(t, "marker", value)
		require.Equal(t, longTTL, m.TTL(guard.Key))
	})
}

func TestTheClockOfANodeIsComparedWithOurs(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd != "TIME" {
				return "", false
			}
			ahead := time.Now().Add(5 * time.Second).UnixMicro()
			return "*2\r\n:" + strconv.FormatInt(ahead/1e6, 10) + "\r\n:" + strconv.FormatInt(ahead%1e6, 10), true
		})
		require.Equal(t, 5*time.Second, examined(t, n, nil).Offset)
		m.Hook(nil)
		m.Deny("TIME")
		require.False(t, examined(t, n, nil).ClockRead)
	})
}

func TestWhatCONFIGSaysOfPersistenceIsTakenIn(t *testing.T) {
	for fsync, want := range map[string][]string{"always": nil, "everysec": {"warning persistence"}, "no": {"warning persistence"}} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			m.SetInfo("aof_enabled", "1")
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				if cmd == "CONFIG" && args[1] == "appendfsync" {
					return "*2\r\n$11\r\nappendfsync\r\n" + bulk(fsync), true
				}
				return "", false
			})
			e := examined(t, n, nil)
			require.Equal(t, "AOF, fsync "+fsync, e.Persistence())
			require.Equal(t, want, codes(e.Findings))
		})
	}
}

func TestAServerThatSyncsNothingInARewriteMayForget(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		m.SetInfo("aof_enabled", "1")
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			values := map[string]string{"appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}
			if cmd != "CONFIG" || values[args[1]] == "" {
				return "", false
			}
			return "*2\r\n" + bulk(args[1]) + bulk(values[args[1]]), true
		})
		e := examined(t, n, nil)
		require.Equal(t, "AOF, fsync not in rewrites", e.Persistence())
		require.Equal(t, []string{"warning persistence"}, codes(e.Findings))
		require.Contains(t, e.Findings[0].Text, "(no-appendfsync-on-rewrite yes): set it to no, or use the restart guard")
	})
}

func TestWithoutTheRightToCONFIGTheFsyncPolicyIsUnknown(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CONFIG") }, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		require.Equal(t, []string{"warning persistence"}, codes(examined(t, n, nil).Findings))
		m.SetInfo("aof_enabled", "1")
		e := examined(t, n, nil)
		require.Equal(t, "AOF", e.Persistence())
		require.Equal(t, []string{"note persistence"}, codes(e.Findings))
		require.Empty(t, e.MissingRights, "it is no right that a lock needs")
	})
}

// It returns within the time given, with the reason, and leaves nothing behind.
func TestAnExaminationThatCantBeMadeSaysWhy(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
		synctest.Wait()
		m.Freeze()
		began := time.Now()
		require.ErrorIs(t, why(t, n, 300*time.Millisecond), command.ErrTimeout, "the dial timeout is longer")
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := question(nil).Node(ctx, n)
		require.Error(t, err)
		require.Equal(t, 400*time.Millisecond, time.Since(began), "it ends with its context")
		m.Stop()
		require.ErrorContains(t, why(t, n, time.Second), "connection refused")
	})
}

func TestAnExaminationEndsWithItsNode(t *testing.T) {
	for _, step := range []string{"INFO", "EXISTS"} { // in the handshake, and after it
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			synctest.Wait()
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == step {
					m.Freeze()
				}
				return "", false
			})
			ended := make(chan error)
			go func() {
				_, err := question(nil).Node(t.Context(), n)
				ended <- err
			}()
			synctest.Wait()
			began := time.Now()
			require.NoError(t, n.Close())
			require.ErrorIs(t, <-ended, pool.ErrClosed)
			require.ErrorIs(t, why(t, n, time.Second), pool.ErrClosed)
			require.Zero(t, time.Since(began))
		})
	}
}

// A wrapped pool dials for the doctor, too, and its dial may hang.
func TestANodeOfAWrappedPoolIsExamined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		hangs := make(chan struct{})
		var hung atomic.Bool
		dial := func(ctx context.Context) (redis.Conn, error) {
			if hung.Load() {
				<-hangs
			}
			c, err := m.Dial(ctx, "", "")
			if err != nil {
				return nil, err
			}
			return redis.NewConn(c, 0, 0), nil
		}
		n, err := pool.Wrap(&redis.Pool{DialContext: dial}, pool.Config{Name: "n1", Clock: clock.Runtime()})
		require.NoError(t, err)
		defer n.Close()
		require.Equal(t, m.RunID(), examined(t, n, nil).RunID)
		hung.Store(true)
		began := time.Now()
		require.ErrorContains(t, why(t, n, time.Second), "the wrapped pool's dial did not return in time")
		require.Equal(t, time.Second, time.Since(began))
		close(hangs)
	})
}

func TestPersistenceIsReportedInWords(t *testing.T) {
	known := command.Facts{Role: "master"}
	withAOF := command.Facts{Role: "master", AOF: true}
	for want, e := range map[string]Diagnosis{
		"unknown":           {Facts: command.Facts{Unread: "NOPERM", AOF: true}},
		"AOF":               {Facts: withAOF},
		"AOF, fsync always": {Facts: withAOF, Configured: true, Fsync: "always", Snapshots: true},
		"no AOF":            {Facts: known},
		"snapshots":         {Facts: known, Configured: true, Snapshots: true},
		"none":              {Facts: known, Configured: true},
	} {
		require.Equal(t, want, e.Persistence())
	}
}

func TestAbsurdNumbersOfAServerAreClamped(t *testing.T) {
	for text, want := range map[string]int{
		"-1": 0, "7": 7, "9223372036854775807": math.MaxInt32, "99999999999999999999": math.MaxInt32, "1e9": 0, "x": 0, "": 0,
	} {
		var e Diagnosis
		e.readInfo([]byte("run_id:a\r\nuptime_in_seconds:" + text + "\r\nconnected_slaves:" + text + "\r\n"))
		require.Equal(t, want, e.Replicas, text)
		require.Equal(t, time.Duration(want)*time.Second, e.Uptime, text)
	}
}

// The text of a finding names the node and the remedy.
func TestWhatAMasterReportsOfItselfIsNoted(t *testing.T) {
	sound := func(m *fakeredis.Master) {
		m.SetInfo("aof_enabled", "1")
		m.FailWith("CONFIG", "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways")
	}
	for _, c := range []struct{ field, value, want, words string }{
		{"maxmemory_policy", "noeviction", "", ""},
		{"maxmemory_policy", "volatile-ttl", "note eviction", "maxmemory-policy noeviction"},
		{"master_replid2", otherID, "note history", "it may lack the last writes"},
		{"maxmemory", "1112000", "", ""}, // of which 1000000 are used
		{"maxmemory", "1111000", "warning memory", "uses 1000000 of 1111000 bytes"},
		{"maxmemory", "1000000", "error memory", "refuses writes when it is full"},
		{"maxmemory", "-1", "", ""},
		{"aof_last_write_status", "err", "warning persistence", "append-only"},
		{"rdb_last_bgsave_status", "err", "warning persistence", "snapshot"},
	} {
		onMaster(t, sound, nil, func(t *testing.T, m *fakeredis.Master, n *pool.Node) {
			m.SetInfo(c.field, c.value)
			all := examined(t, n, nil).Findings
			if c.want == "" {
				require.Empty(t, all)
				return
			}
			require.Equal(t, []string{c.want}, codes(all))
			require.Contains(t, all[0].Text, "n1 ")
			require.Contains(t, all[0].Text, c.words)
			m.SetInfo("role", "slave")
			require.NotContains(t, codes(examined(t, n, nil).Findings), c.want, "a replica has an error already")
		})
	}
}

func TestATimeThatIsNoneCountsAsUnread(t *testing.T) {
	for _, wrong := range [][2]int64{{-1, 0}, {0, -1}, {1, 1e6}, {maxTime + 1, 0}, {math.MaxInt64, 0}, {math.MinInt64, 0}, {1, math.MaxInt64}} {
		require.Zero(t, serverTime([]any{wrong[0], wrong[1]}, nil), "%v", wrong)
	}
	latest := serverTime([]any{int64(maxTime), int64(999999)}, nil)
	require.Positive(t, time.Duration(latest)*time.Microsecond, "it fits into a Duration")
}

// planted sets a terminal's colour, reverses the direction of its text, and is long.
var planted = "\x1b[31m\u202e" + strings.Repeat("z", 10<<10)

// requireShowable fails if a text contains control characters, or is too long.
func requireShowable(t *testing.T, what, text string) {
	t.Helper()
	require.NotContains(t, text, strings.Repeat("z", 520), what)
	for _, r := range text {
		require.True(t, unicode.IsPrint(r), "%s: %q in %q", what, r, text)
	}
}

func TestWhatAServerSaysOfItselfIsPrintable(t *testing.T) {
	for _, fields := range [][]string{{"redis_version", "maxmemory_policy"}, {"role"}, {"redis_mode"}, {"run_id", "master_replid2"}} {
		onMaster(t, func(m *fakeredis.Master) {
			for _, f := range fields {
				m.SetInfo(f, planted)
			}
			m.SetInfo("maxmemory", "1")
			m.SetInfo("aof_enabled", "1")
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				return fmt.Sprintf("*2\r\n%s%s", bulk("setting"), bulk("\n"+planted)), cmd == "CONFIG"
			})
		}, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
			e := examined(t, n, nil)
			require.Contains(t, e.Persistence(), `\x0a\x1b[31m\u202ez`)
			for _, text := range []string{e.Version, e.Mode, e.Role, e.RunID, e.ReplID2, e.Eviction, e.BacklogTTL, e.Fsync, e.Persistence()} {
				requireShowable(t, "a fact", text)
			}
			for _, f := range e.Findings {
				requireShowable(t, f.Code, f.Text)
			}
		})
	}
}

func TestWhatAServerRefusesIsPrintable(t *testing.T) {
	onMaster(t, func(m *fakeredis.Master) {
		m.FailWith("INFO", "NOPERM "+planted)
		m.FailWith("GET", "ERR "+planted)
	}, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		e := examined(t, n, nil)
		for _, text := range []string{e.Unread, e.MarkerUnread, e.Findings[0].Text} {
			require.Contains(t, text, `\x1b[31m\u202ez`)
			requireShowable(t, "a refusal", text)
		}
	})
	onMaster(t, func(m *fakeredis.Master) { m.FailWith("INFO", "BUSY "+planted) }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		requireShowable(t, "a refusal of everything", why(t, n, time.Second).Error())
	})
	onMaster(t, func(m *fakeredis.Master) { m.FailWith("SET", "MISCONF "+planted) }, nil, func(t *testing.T, _ *fakeredis.Master, n *pool.Node) {
		e := examined(t, n, nil)
		require.Contains(t, e.Findings[0].Text, `\x1b[31m\u202ez`)
		requireShowable(t, "a refusal to write", e.Findings[0].Text)
	})
	found := &Diagnosis{}
	noteScanDenied(found, errors.New(planted))
	requireShowable(t, "a survey", found.ScanDenied)
	for _, c := range ttlCalls([]string{planted}, found) {
		require.NoError(t, c.Take(int64(1), nil))
	}
	requireShowable(t, "a key", found.LiveKey)
}
