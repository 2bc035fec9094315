package pool

import (
	"fmt"
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

// mergedAcquire is a kind of acquires that are merged.
type mergedAcquire struct {
	fenced, guarded bool
	script          string // of one acquire by itself
}

var mergedAcquires = []mergedAcquire{
	{false, true, "acquire+guard"},
	{true, false, "acquire+fence"},
	{true, true, "acquire+fence+guard"},
}

func (k mergedAcquire) merged() string { return "EVALSHA " + k.script + "+merge" }
func (k mergedAcquire) alone() string  { return "EVALSHA " + k.script }

// acquire makes an acquire whose hint differs from the present time by ahead.
func (k mergedAcquire) acquire(token, key string, ahead time.Duration) *call {
	t := terms(token, []string{key})
	t.SetCounters(false)
	t.UnderGuard = k.guarded
	c := newCall(func(r *command.Request) {
		if k.fenced {
			command.NewFencedAcquire(r, t, longTTL, mostTTL, time.Now().Add(ahead).UnixMicro(), time.Second)
		} else {
			command.NewAcquire(r, t, longTTL, mostTTL)
		}
	})
	return c
}

// run runs a test with a node that is connected and votes, and whose writer is idle.
func (k mergedAcquire) run(t *testing.T, change func(c *Config), f func(t *testing.T, m *fakeredis.Master, n *Node)) {
	t.Helper()
	inBubble(t, change, func(t *testing.T, m *fakeredis.Master, n *Node) {
		inLocker(n)
		if k.guarded {
			admitted(t, m, n)
		} else {
			p := pinging()
			require.Equal(t, command.Granted, p.Outcome(t, n))
		}
		synctest.Wait()
		m.ForgetLog()
		f(t, m, n)
	})
}

// ofEach runs a test with each kind of acquires.
func ofEach(t *testing.T, f func(t *testing.T, k mergedAcquire)) {
	t.Helper()
	for _, k := range mergedAcquires {
		t.Run(k.script, func(t *testing.T) { f(t, k) })
	}
}

func TestAcquiresOfABatchGoInOneCallBehindItsOtherCommands(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.Set("b", "other", longTTL)
			m.Set("r", "R", longTTL)
			m.Set("s", "S", longTTL)
			before := n.Stats().Merged
			a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
			r, s := announcing("R", "r"), announcing("S", "s")
			p := pinging()
			together(n, r, a, s, b, p)
			require.Equal(t, command.Granted, a.Reply(t).Outcome)
			require.Equal(t, command.Reply{Outcome: command.Refused}, b.Reply(t))
			for _, c := range []*call{r, s, p} {
				require.Equal(t, command.Granted, c.Reply(t).Outcome)
			}
			require.Equal(t, []string{"PING", k.merged(), merged}, quiet(m))
			token, _ := m.Get("a")
			require.Equal(t, "A", token)
			require.Equal(t, longTTL, m.TTL("a"))
			stats := n.Stats()
			require.Equal(t, before+4, stats.Merged)
			require.Equal(t, stats.Written, answers(n))
		})
	})
}

// The result of a merged acquire, and all that it writes, is that of an acquire by itself. A bad
// counter refuses its own key only.
func TestAMergedAcquireDoesWhatItDoesByItself(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		alone, together := k.effects(t, true), k.effects(t, false)
		require.NotEmpty(t, alone)
		for i := range alone {
			require.Equal(t, alone[i], together[i])
			require.Equal(t, command.Granted.String(), strings.Fields(together[i].replies[1])[0], "the other acquire: %+v", together[i])
		}
	})
}

// acquireEffects is what two acquires did: the first for a key in some state, the second for a free one.
type acquireEffects struct {
	lock, counter string // of the first key, before
	ahead         time.Duration
	reversed      bool // the second acquire was queued first

	replies [2]string
	keys    map[string]string
}

const listValue = "list"

// effects has two acquires sent in one batch for every state of a key and its counter. The bubble's time
// stands still meanwhile.
func (k mergedAcquire) effects(t *testing.T, apart bool) (all []acquireEffects) {
	t.Helper()
	counters, aheads := []string{""}, []time.Duration{0}
	if k.fenced {
		counters = []string{
			"", listValue, "0", "5", "now-1", "now0", "now+1", "now+5e6", "now-5e6", "now+1e12", "x", " ", "1.5", "-1", "1e3", "0x10",
			"9007199254740990", "9007199254740991", "9007199254740992", "99999999999999999999",
		}
		aheads = []time.Duration{0, time.Microsecond, 5 * time.Second, -5 * time.Second}
	}
	for _, lock := range []string{"", "other", "A", listValue} {
		for _, counter := range counters {
			for _, ahead := range aheads {
				for _, reversed := range []bool{false, true} {
					all = append(all, acquireEffects{lock: lock, counter: counter, ahead: ahead, reversed: reversed})
				}
			}
		}
	}
	k.run(t, func(c *Config) { c.Proxied = apart }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for i := range all {
			e := &all[i]
			put(m, "a", e.lock)
			put(m, command.FencePrefix+"a", e.counter)
			m.ForgetLog()
			calls := []*call{k.acquire("A", "a", e.ahead), k.acquire("B", "b", 0)}
			if e.reversed {
				together(n, calls[1], calls[0])
			} else {
				together(n, calls[0], calls[1])
			}
			for i, c := range calls {
				r := c.Reply(t)
				e.replies[i] = fmt.Sprint(r.Outcome, " ", r.Fence, r.Err, r.NotSent)
			}
			if apart {
				require.NotContains(t, names(m), k.merged())
			} else {
				require.Equal(t, []string{k.merged()}, quiet(m))
			}
			e.keys = map[string]string{}
			for _, key := range m.Keys() {
				if key != guard.Key { // which has the run ID
					value, _ := m.Get(key)
					e.keys[key] = fmt.Sprint(value, m.TTL(key))
					m.Del(key)
				}
			}
		}
	})
	return all
}

// put gives a key a value: none, a list, a string, or "now" and a number of microseconds.
func put(m *fakeredis.Master, key, value string) {
	switch at, isTime := strings.CutPrefix(value, "now"); {
	case value == "":
		return
	case value == listValue:
		m.PushList(key)
		return
	case isTime:
		plus, err := strconv.ParseFloat(at, 64)
		if err != nil {
			panic(err)
		}
		value = strconv.FormatInt(time.Now().UnixMicro()+int64(plus), 10)
	}
	m.Set(key, value, time.Minute)
}

// These acquires are never merged with others.
func TestWhichAcquiresAreNotMerged(t *testing.T) {
	k := mergedAcquires[1]
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		several := terms("T", []string{"c", "d"})
		several.SetCounters(false)
		inFront := k.acquire("T", "e", 0)
		inFront.Req.SendAlone()
		calls := []*call{
			k.acquire("T", "a", 0),
			newCall(func(r *command.Request) {
				command.NewFencedAcquire(r, several, longTTL, mostTTL, time.Now().UnixMicro(), time.Second)
			}),
			inFront,
			acquiring("T", longTTL, "f"), // a plain SET
		}
		together(n, calls...)
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.NotContains(t, names(m), k.merged())
		require.Zero(t, n.Stats().Merged)
	})
	merging(t, func(c *Config) { c.Proxied = true }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
		together(n, a, b)
		require.Equal(t, command.Granted, a.Reply(t).Outcome)
		require.Equal(t, command.Granted, b.Reply(t).Outcome)
		require.NotContains(t, names(m), k.merged())
	})
}

// failMergedAcquires has a master answer merged acquires of this kind by a reply. With executed true it
// executes the commands by themselves before.
func failMergedAcquires(m *fakeredis.Master, k mergedAcquire, reply string) (answered *int) {
	answered = new(int)
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		if "EVALSHA "+sub(fakeredis.Entry{Name: cmd, Args: args}) == k.merged() {
			*answered++
			return reply, true
		}
		return "", false
	})
	return answered
}

// No acquire is sent again. Later ones are merged again after an error of the server's state.
func TestAFailedCallOfAcquires(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		for reply, want := range map[string]struct {
			outcome command.Outcome
			again   bool // later acquires are merged again
		}{
			"OOM command not allowed":                               {command.Failed, true},
			"NOPERM No permissions to access a key":                 {command.Unknown, false},
			"ERR something else":                                    {command.Unknown, false},
			"CROSSSLOT Keys in request don't hash to the same slot": {command.Failed, false},
		} {
			t.Run(reply, func(t *testing.T) {
				k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
					answered := failMergedAcquires(m, k, reply)
					a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
					together(n, a, b)
					for _, c := range []*call{a, b} {
						r := c.Reply(t)
						require.Equal(t, want.outcome, r.Outcome)
						require.ErrorContains(t, r.Err, strings.Fields(reply)[0])
					}
					a, b = k.acquire("A", "a", 0), k.acquire("B", "b", 0)
					together(n, a, b)
					require.Equal(t, !want.again, a.Reply(t).Outcome == command.Granted)
					require.Equal(t, !want.again, b.Reply(t).Outcome == command.Granted)
					require.Equal(t, want.again, *answered == 2)
					s := n.Stats()
					require.Equal(t, int64(2**answered), s.Unmerged)
					require.Zero(t, s.Violations)
					require.Equal(t, 1, s.Connected)
				})
			})
		}
	})
}

// Each acquire goes on by its own text. The next call sends the text of the merged script.
func TestAScriptOfAcquiresThatIsLostIsSentByItsText(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.LoseScripts()
			text := strings.Replace(k.alone(), "EVALSHA", "EVAL", 1)
			for i, want := range [][]string{
				{k.merged(), text, text},
				{text + "+merge"},
				{k.merged()},
			} {
				m.ForgetLog()
				a, b := k.acquire("A", fmt.Sprint("a", i), 0), k.acquire("B", fmt.Sprint("b", i), 0)
				together(n, a, b)
				require.Equal(t, command.Granted, a.Reply(t).Outcome)
				require.Equal(t, command.Granted, b.Reply(t).Outcome)
				require.Equal(t, want, quiet(m))
			}
		})
	})
}

// Without the right to read all counters at once, nothing is lost: each acquire goes on by itself.
func TestMergedAcquiresNeedNoRightToMGET(t *testing.T) {
	for _, k := range mergedAcquires[1:] {
		k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.Deny("MGET")
			text := strings.Replace(k.alone(), "EVALSHA", "EVAL", 1)
			for i, want := range [][]string{{k.merged(), text, text}, {k.alone(), k.alone()}} {
				m.ForgetLog()
				a, b := k.acquire("A", fmt.Sprint("a", i), 0), k.acquire("B", fmt.Sprint("b", i), 0)
				together(n, a, b)
				require.Equal(t, command.Granted, a.Reply(t).Outcome)
				require.Equal(t, command.Granted, b.Reply(t).Outcome)
				require.Equal(t, want, quiet(m))
			}
		})
	}
}

// An acquire that was given up before the server said that it does not know the script is not sent
// again: its undo may be behind it.
func TestAnAcquireThatWasGivenUpIsNotSentAgainAfterNOSCRIPT(t *testing.T) {
	k := mergedAcquires[1]
	k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.LoseScripts()
		c := only(t, m)
		c.HoldReplies()
		a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
		together(n, a, b)
		synctest.Wait()
		require.False(t, a.Cancel())
		c.Release()
		require.Equal(t, command.Failed, a.Reply(t).Outcome)
		require.Equal(t, command.Granted, b.Reply(t).Outcome)
		require.NotContains(t, m.Keys(), "a")
	})
}

// Such a reply says nothing about any acquire, and the connection ends.
func TestAReplyToMergedAcquiresThatMakesNoSenseEndsTheConnection(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		for _, reply := range []string{":1", "*-1", "*2\r\n:1\r\n-ERR else"} {
			t.Run(reply, func(t *testing.T) {
				k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
					before := n.Stats().Violations
					failMergedAcquires(m, k, reply+"\r\n:1\r\n")
					a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
					behind := announcing("R", "r")
					together(n, a, b, behind.Within(n, longTTL))
					for _, c := range []*call{a, b} {
						require.Equal(t, command.Unknown, c.Reply(t).Outcome)
					}
					require.Equal(t, command.Unknown, behind.Reply(t).Outcome, "a reply behind it is not believed")
					require.Equal(t, before+1, n.Stats().Violations)
				})
			})
		}
	})
}

// If the connection ends before the answer, the server may execute each acquire later. Each is Unknown.
func TestMergedAcquiresWithoutAnAnswerMayStillBeExecuted(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		for _, executed := range []bool{false, true} {
			k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				c := only(t, m)
				if executed {
					c.HoldReplies()
				} else {
					c.HoldRequests()
				}
				a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
				together(n, a, b)
				synctest.Wait()
				_, held := m.Get("a")
				require.Equal(t, executed, held)
				c.Drop()
				require.Equal(t, command.Unknown, a.Reply(t).Outcome)
				require.Equal(t, command.Unknown, b.Reply(t).Outcome)
				undo := releasing("A", "a").Within(n, longTTL)
				require.NotEqual(t, command.Failed, undo.Outcome(t, n))
				_, held = m.Get("a")
				require.False(t, held)
			})
		}
	})
}

// A command that was given up, or that has expired, is not part of the call.
func TestAnAcquireThatWasGivenUpIsNotPartOfACall(t *testing.T) {
	k := mergedAcquires[1]
	k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		a, b, c, d := k.acquire("A", "a", 0), k.acquire("B", "b", 0), k.acquire("C", "c", 0), k.acquire("D", "d", 0)
		require.True(t, b.Cancel())
		time.Sleep(time.Millisecond) // the instant 0 stands for none
		c.Req.NotAfter = n.cfg.Clock.Now()
		together(n, a, b, c, d)
		require.Equal(t, command.Granted, a.Reply(t).Outcome)
		require.Equal(t, command.Granted, d.Reply(t).Outcome)
		requireUnsent(t, b.Reply(t))
		requireUnsent(t, c.Reply(t))
		require.Equal(t, []string{"a", "d", "redlock:fence:a", "redlock:fence:d"}, m.Keys())
		require.Equal(t, int64(2), n.Stats().Merged)
	})
}

// A node whose marker is not the expected one grants nothing, and each acquire learns the reason.
func TestMergedAcquiresOfANodeThatLostItsMarker(t *testing.T) {
	k := mergedAcquires[2]
	k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.FlushAll()
		a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
		together(n, a, b)
		requireQuarantined(t, a.Reply(t), guardTTL)
		requireQuarantined(t, b.Reply(t), guardTTL)
		require.NotContains(t, m.Keys(), "a")
		require.NotContains(t, m.Keys(), "redlock:fence:b")
	})
}

// The first acquires on a connection wait for no round trip more: the marker is verified in front of
// them.
func TestTheMarkerIsVerifiedInFrontOfMergedAcquires(t *testing.T) {
	k := mergedAcquires[2]
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		inLocker(n)
		guarded(n)
		p := pinging()
		require.Equal(t, command.Granted, p.Outcome(t, n))
		synctest.Wait()
		m.ForgetLog()
		a, b := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
		together(n, a, b)
		requireQuarantined(t, a.Reply(t), guardTTL)
		requireQuarantined(t, b.Reply(t), guardTTL)
		require.Equal(t, []string{"EVALSHA verify", k.merged()}, quiet(m)[:2])
	})
}

// docs/dev/hazards.md H22, H23: the script of several acquires checks each TTL by itself.
func TestEachOfTheAcquiresInOneCallNeedsATTLWithinItsBounds(t *testing.T) {
	ofEach(t, func(t *testing.T, k mergedAcquire) {
		k.run(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			for _, ttl := range []time.Duration{0, 9 * time.Millisecond, mostTTL + time.Millisecond} {
				bad, good := k.acquire("A", "a", 0), k.acquire("B", "b", 0)
				bad.Req.TTL = ttl
				together(n, bad, good)
				r := bad.Reply(t)
				require.Equal(t, command.Failed, r.Outcome, "%v", ttl)
				require.ErrorContains(t, r.Err, "TTL out of bounds")
				require.Equal(t, command.Granted, good.Reply(t).Outcome)
				require.False(t, has(m, "a") || has(m, command.FencePrefix+"a"))
				require.Equal(t, longTTL, m.TTL("b"))
				m.Del("b")
			}
			require.NotContains(t, names(m), k.alone())
		})
	})
}
