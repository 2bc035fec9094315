package pool

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

const (
	busy  = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	weird = "WEIRD an error that nobody knows"
)

// failing makes a master answer the commands of locks by an error, but not its health checks.
func failing(m *fakeredis.Master, with string) {
	m.FailWith("SET", with)
	m.FailWith("EVALSHA", with)
	m.FailWith("EVAL", with)
}

// undoing is the release of this process's own attempt.
func undoing(token string, keys ...string) *call {
	c := releasing(token, keys...)
	c.Req.AcquiredHere = true
	return c
}

func TestAnUndoWithNothingToUndoIsSentOnce(t *testing.T) {
	for _, says := range []string{
		busy, "CLUSTERDOWN The cluster is down", "MISCONF Errors writing to the AOF file",
		"OOM command not allowed when used memory > 'maxmemory'.", "NOREPLICAS Not enough good replicas to write.",
	} {
		for _, keys := range [][]string{{"a"}, {"a", "b"}} {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				synctest.Wait()
				failing(m, says)
				require.Equal(t, command.Failed, acquiring("A", longTTL, keys...).Outcome(t, n))
				m.ForgetLog()
				r := undoing("A", keys...).Within(n, longTTL).On(n).Reply(t)
				require.Equal(t, command.Failed, r.Outcome)
				require.ErrorContains(t, r.Err, says)
				require.False(t, r.Retrying, says)
				require.Zero(t, n.Stats().ParkedUndos)
				time.Sleep(time.Minute)
				require.Equal(t, 1, count(m, "EVALSHA release"), says)
			})
		}
	}
}

// The undo is submitted while its acquire is unanswered, as after a node timeout.
func TestAnUndoBehindAnAcquireThatExecutesNothingIsSentOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		failing(m, busy)
		m.SetDelay(time.Second)
		acquire := acquiring("A", longTTL, "a").On(n)
		time.Sleep(time.Second / 2)
		require.False(t, acquire.Cancel())
		r := undoing("A", "a").Within(n, longTTL).On(n).Reply(t)
		require.False(t, r.Retrying)
		require.Equal(t, 1, count(m, "EVALSHA release"))
	})
}

// The undo is repeated if the acquire's own answer may not be the whole truth about the keys.
func TestAnUndoThatMayHaveSomethingToUndoIsRepeated(t *testing.T) {
	plain := func(*Config) {}
	for what, c := range map[string]struct {
		change  func(c *Config)
		acquire func(t *testing.T, m *fakeredis.Master, n *Node)
		others  bool // other acquires than this process's may have created the keys
	}{
		"a grant followed by BUSY": {change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, acquiring("A", longTTL, "a").Outcome(t, n))
			failing(m, busy)
		}},
		"an unknown error": {change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			failing(m, weird)
			require.Equal(t, command.Unknown, acquiring("A", longTTL, "a").Outcome(t, n))
			m.Set("a", "A", longTTL) // it was executed
		}},
		"a merged call without a permission": {change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			k := mergedAcquires[1]
			failMergedAcquires(m, k, "NOPERM No permissions to access a key")
			a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
			together(n, a, b)
			require.Equal(t, command.Unknown, a.Reply(t).Outcome)
			b.Reply(t)
			failing(m, busy)
			m.Set("a", "A", longTTL) // it was executed
		}},
		"a proxy": {change: func(c *Config) { c.Proxied = true }, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			failing(m, busy)
			require.Equal(t, command.Failed, acquiring("A", longTTL, "a").Outcome(t, n))
			m.Set("a", "A", longTTL)
		}},
		"an acquire that was sent again by its text": {change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.LoseScripts()
			m.FailWith("EVAL", busy)
			require.Equal(t, command.Failed, acquiring("A", longTTL, "a", "b").Outcome(t, n))
			require.Equal(t, 1, count(m, "EVAL acquire"))
			failing(m, busy)
			m.Set("a", "A", longTTL)
		}},
		"a repair, or another process": {others: true, change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			failing(m, busy)
			require.Equal(t, command.Failed, acquiring("A", longTTL, "a").Outcome(t, n))
			m.Set("a", "A", longTTL)
		}},
		"another connection": {change: plain, acquire: func(t *testing.T, m *fakeredis.Master, n *Node) {
			failing(m, busy)
			require.Equal(t, command.Failed, acquiring("A", longTTL, "a").Outcome(t, n))
			only(t, m).Drop()
			time.Sleep(time.Second)
			m.Set("a", "A", longTTL)
		}},
	} {
		inBubble(t, c.change, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			c.acquire(t, m, n)
			undo := undoing("A", "a").Within(n, longTTL)
			undo.Req.AcquiredHere = !c.others
			r := undo.On(n).Reply(t)
			require.True(t, r.Retrying, "%s: %v", what, r)
			require.Equal(t, 1, n.Stats().ParkedUndos, what)
			time.Sleep(5 * time.Second)
			require.Equal(t, []string{"a"}, m.Keys(), what)
			failing(m, "")
			require.NotEqual(t, command.Failed, lastReply(t, undo).Outcome, what)
			require.Empty(t, m.Keys(), what)
			require.Zero(t, n.Stats().ParkedUndos, what)
		})
	}
}

// A member of a Cluster redirected the acquire, and the next member does not execute it.
func TestTheUndoOfAnAcquireThatWasSentOnIsRepeated(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		b := others(cl, "foo")[0]
		cl.MoveSlot("foo", b)
		b.FailWith("SET", "CLUSTERDOWN The cluster is down")
		require.Equal(t, command.Failed, acquiring("A", longTTL, "foo").Outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Redirects)
		failing(b, "CLUSTERDOWN The cluster is down")
		require.True(t, undoing("A", "foo").Within(n, longTTL).On(n).Reply(t).Retrying)
	})
}

// parkedTTL is the TTL of the locks that parkedUndos undo.
const parkedTTL = 2 * time.Minute

// parkedUndos submits undos of grants at a master that has begun to fail.
func parkedUndos(t *testing.T, m *fakeredis.Master, n *Node, many int, with string) []*call {
	t.Helper()
	synctest.Wait()
	undos := make([]*call, many)
	for i := range undos {
		key := strconv.Itoa(i)
		m.Set(key, "A"+key, parkedTTL)
		undos[i] = undoing("A"+key, key).Within(n, parkedTTL)
	}
	failing(m, with)
	for _, u := range undos {
		require.True(t, u.On(n).Reply(t).Retrying)
	}
	require.Equal(t, many, n.Stats().ParkedUndos)
	return undos
}

// For any number of parked undos there is one probe a second, and no timer for each. When the probe
// is executed all are sent at once.
func TestParkedUndosFollowOneProbe(t *testing.T) {
	for _, with := range []string{busy, weird} {
		ticking := &tallying{}
		inBubble(t, func(c *Config) { ticking.Clock = c.Clock; c.Clock = ticking }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			undos := parkedUndos(t, m, n, 2000, with)
			require.Less(t, ticking.waiting.Load(), int64(8), "timers")
			time.Sleep(2 * time.Second)
			for range 10 {
				m.ForgetLog()
				time.Sleep(time.Second)
				require.LessOrEqual(t, count(m, "EVALSHA release"), 1)
			}
			require.Len(t, m.Keys(), 2000)
			failing(m, "")
			time.Sleep(maxRetryDelay + 10*time.Millisecond)
			require.Empty(t, m.Keys(), "in some round trips")
			require.Zero(t, n.Stats().ParkedUndos)
			for _, u := range undos {
				require.Equal(t, command.Granted, lastReply(t, u).Outcome)
			}
		})
	}
}

// lastReply waits for an undo's last answer. If the undo was a probe, it may have been answered as
// pending before.
func lastReply(t *testing.T, undo *call) command.Reply {
	t.Helper()
	for {
		if r := undo.Reply(t); !r.Retrying {
			return r
		}
	}
}

// The error may concern one undo only. That undo neither delays others nor is sent more often
// because others succeed.
func TestAProbeThatAlwaysFailsHoldsBackNoOther(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		parkedUndos(t, m, n, 20, weird)
		failing(m, "")
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return weird, isOf(cmd, args, "A0")
		})
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"0"}, m.Keys())
		time.Sleep(2 * time.Second)
		m.ForgetLog()
		for i := range 1000 { // other locks work
			require.Equal(t, command.Granted, acquiring("B", longTTL, "b").Outcome(t, n))
			require.Equal(t, command.Granted, undoing("B", "b").Within(n, longTTL).Outcome(t, n), i)
			time.Sleep(10 * time.Millisecond)
		}
		require.InDelta(t, 1010, count(m, "EVALSHA release"), 2)
	})
}

func isOf(cmd string, args []string, token string) bool {
	if cmd != "EVALSHA" && cmd != "EVAL" {
		return false
	}
	return slices.Contains(args, token)
}

func TestAParkedUndoEndsWithItsNotAfterInstant(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		undos := parkedUndos(t, m, n, 10, busy)
		time.Sleep(parkedTTL + 2*maxRetryDelay)
		require.Zero(t, n.Stats().ParkedUndos)
		for _, u := range undos {
			require.ErrorIs(t, lastReply(t, u).Err, command.ErrExpired)
			require.True(t, u.Pending())
		}
		failing(m, "")
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Empty(t, quiet(m))
	})
}

// The acquire's connection ended before its answer, nothing can be killed, and the master is down
// since. The undo's caller gets an answer in time, and what the acquire makes later is swept.
func TestAParkedUndoOfAnOrphanIsAnsweredInTimeAndSwept(t *testing.T) {
	const ttl = 20 * time.Second
	onMaster(t, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") }, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		release := orphaned(t, m, n, acquiring("A", ttl, "k"))
		time.Sleep(time.Second)
		failing(m, busy)
		undo := undoing("A", "k").Within(n, ttl).On(n)
		require.True(t, undo.Reply(t).Retrying)
		m.FailWith("*", "LOADING Redis is loading the dataset in memory") // no dial succeeds
		clients := m.Clients()
		clients[len(clients)-1].Drop()
		time.Sleep(ttl + time.Second)
		require.False(t, undo.Pending())
		require.ErrorIs(t, lastReply(t, undo).Err, command.ErrExpired)
		require.Zero(t, n.Stats().ParkedUndos)
		m.FailWith("*", "")
		failing(m, "")
		time.Sleep(time.Second)
		release()
		time.Sleep(sweepRound + 100*time.Millisecond)
		require.Empty(t, m.Keys(), "what came late was undone")
		time.Sleep(3 * ttl)
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Empty(t, quiet(m), "not for ever")
	})
}

// A new connection is another reason to try.
func TestParkedUndosAreSentSoonOnANewConnection(t *testing.T) {
	for range 5 { // the next probe may be due just after the connection by chance
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			parkedUndos(t, m, n, 100, busy)
			time.Sleep(10 * time.Second)
			m.Stop()
			time.Sleep(3 * time.Second)
			require.Equal(t, 100, n.Stats().ParkedUndos)
			require.NoError(t, m.Restart(true))
			failing(m, "")
			for n.Stats().Connected == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, m.Keys())
			require.Zero(t, n.Stats().ParkedUndos)
		})
	}
}

// Undos beyond the bound are answered, counted and
// never sent.
func TestNoMoreThanTenThousandUndosAreParked(t *testing.T) {
	const beyond = 50
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		parkedUndos(t, m, n, maxParked, busy)
		var late []*call
		for i := range beyond {
			token := "late" + strconv.Itoa(i)
			m.Set(token, token, longTTL)
			c := undoing(token, token).Within(n, longTTL).On(n)
			r := c.Reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			require.False(t, r.Retrying, "it is answered for good")
			late = append(late, c)
		}
		s := n.Stats()
		require.Equal(t, maxParked, s.ParkedUndos)
		require.Equal(t, int64(beyond), s.DroppedUndos)
		failing(m, "")
		time.Sleep(2 * time.Second)
		require.Len(t, m.Keys(), beyond, "it is never sent later")
		for _, c := range late {
			require.True(t, c.Pending())
		}
		require.Zero(t, n.Stats().ParkedUndos)
		failing(m, busy)
		again := undoing("late0", "late0").Within(n, longTTL).On(n)
		require.True(t, again.Reply(t).Retrying, "there is room again")
	})
}

// Each member of a Cluster has a probe of its own, and the other members continue.
func TestAMemberThatFailsHasItsOwnProbe(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		bad, good := cl.Owner("foo"), others(cl, "foo")
		for i := range 50 {
			require.Equal(t, command.Granted, acquiring(fmt.Sprint("A", i), longTTL, fmt.Sprintf("{foo}%d", i)).Outcome(t, n))
		}
		failing(bad, "CLUSTERDOWN Hash slot not served")
		for i := range 50 {
			require.True(t, undoing(fmt.Sprint("A", i), fmt.Sprintf("{foo}%d", i)).Within(n, longTTL).On(n).Reply(t).Retrying)
		}
		require.Equal(t, 50, n.Stats().ParkedUndos)
		time.Sleep(2 * time.Second)
		bad.ForgetLog()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10, count(bad, "EVALSHA release"), 1)
		require.Zero(t, count(good[0], "EVALSHA release")+count(good[1], "EVALSHA release"))
		failing(bad, "")
		time.Sleep(maxRetryDelay + 10*time.Millisecond)
		require.Empty(t, bad.Keys())
		require.Zero(t, n.Stats().ParkedUndos)
	})
}

// The slot moves to another member, with the keys.
func TestParkedUndosGoWithTheirSlot(t *testing.T) {
	for name, dies := range map[string]bool{"moved": false, "failed over": true} {
		inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
			from := cl.Owner("foo")
			for i := range 50 {
				require.Equal(t, command.Granted, acquiring(fmt.Sprint("A", i), time.Minute, fmt.Sprintf("{foo}%d", i)).Outcome(t, n))
			}
			failing(from, busy)
			for i := range 50 {
				require.True(t, undoing(fmt.Sprint("A", i), fmt.Sprintf("{foo}%d", i)).Within(n, time.Minute).On(n).Reply(t).Retrying)
			}
			to := cl.Add()
			if dies {
				from.Stop()
			}
			cl.TakeSlot(from, to, true)
			time.Sleep(3 * time.Second) // the member is not dropped yet
			require.Empty(t, to.Keys(), name)
			require.Zero(t, n.Stats().ParkedUndos, name)
		})
	}
}

// Each owner waits for the answer to its undo.
func TestCloseAnswersAllParkedUndos(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		const many = 5
		var all []*call
		for i := range many {
			key := string(rune('a' + i))
			require.Equal(t, command.Granted, acquiring("A"+key, longTTL, key).Outcome(t, n))
		}
		failing(m, busy)
		for i := range many {
			key := string(rune('a' + i))
			all = append(all, releasing("A"+key, key).Within(n, longTTL).On(n))
		}
		synctest.Wait()
		for _, c := range all {
			require.True(t, c.Reply(t).Retrying)
		}
		require.Equal(t, many, n.Stats().ParkedUndos)
		require.NoError(t, n.Close())
		synctest.Wait()
		for _, c := range all {
			require.Len(t, c.Answers, 1)
		}
		require.Zero(t, n.Stats().ParkedUndos)
	})
}
