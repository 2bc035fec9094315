package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
)

const merged = "EVALSHA release+merge"

// inLocker gives a node to a Locker without a prefix.
func inLocker(n *Node) { join(n, command.Membership{WaitersChannel: command.WaitersChannel("")}) }

// announcing returns an announced release that may be merged.
func announcing(token string, keys ...string) *call {
	c := newCall(func(r *command.Request) { command.NewAnnouncingRelease(r, terms(token, keys), 0, 0) })
	return c
}

// together has the writer take all commands in one batch. The writer must be idle.
func together(n *Node, calls ...*call) { nodetest.TogetherAt(n, serverOf(n), calls...) }

// merging runs a test with a node that is connected, and whose writer is idle.
func merging(t *testing.T, change func(c *Config), f func(t *testing.T, m *fakeredis.Master, n *Node)) {
	t.Helper()
	inBubble(t, change, func(t *testing.T, m *fakeredis.Master, n *Node) {
		inLocker(n)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		m.ForgetLog()
		f(t, m, n)
	})
}

func TestReleasesOfABatchGoInOneCallBehindItsOtherCommands(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("a", "A", longTTL)
		m.Set("b", "other", longTTL)
		m.PushList("list")
		a, b, gone, list := announcing("A", "a"), announcing("B", "b"), announcing("C", "c"), announcing("D", "list")
		p := pinging()
		together(n, a, b, gone, list, p)
		require.Equal(t, command.Reply{Outcome: command.Granted}, a.Reply(t))
		for _, c := range []*call{b, gone, list} {
			require.Equal(t, command.Reply{Outcome: command.Refused}, c.Reply(t))
		}
		require.Equal(t, command.Granted, p.Reply(t).Outcome)
		require.Equal(t, []string{"PING", merged}, quiet(m))
		require.Equal(t, []string{"b", "list"}, m.Keys())
		s := n.Stats()
		require.Equal(t, [3]int64{4, 0, 0}, [3]int64{s.Merged, s.Unmerged, s.Violations})
		require.Equal(t, s.Written, answers(n))
	})
}

// A call has at most MaxMerged releases, and a single release goes as before.
func TestMergedCallsAreBounded(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		var calls []*call
		for i := range 2*command.MaxMerged + 1 {
			name := fmt.Sprint("k", i)
			m.Set(name, "T", longTTL)
			calls = append(calls, announcing("T", name))
		}
		together(n, calls...)
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.Equal(t, []string{merged, merged, "EVALSHA release+announce"}, quiet(m))
		require.Empty(t, m.Keys())
	})
}

// The result of a merged release, and what it does to its key and announces, is that of a release by
// itself. All states of two keys and all subscriptions are tried.
func TestAMergedReleaseDoesWhatItDoesByItself(t *testing.T) {
	states := []string{"", "T", "other", "list"}
	type effects struct {
		replies []command.Reply
		keys    []string
		heard   []string
	}
	run := func(t *testing.T, apart bool, state [2]string, subscribed []string) (e effects) {
		merging(t, func(c *Config) { c.Proxied = apart }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			heard := make(diary, 100)
			sub := voterOf(n).Subscribe(heard)
			defer sub.Close()
			for _, channel := range subscribed {
				sub.Add(channel)
				require.Equal(t, "subscribed "+channel, <-heard)
			}
			var calls []*call
			for i, s := range state {
				name := string(rune('a' + i))
				switch s {
				case "":
				case "list":
					m.PushList(name)
				default:
					m.Set(name, s, longTTL)
				}
				calls = append(calls, announcing("T", name))
			}
			together(n, calls...)
			for _, c := range calls {
				e.replies = append(e.replies, c.Reply(t))
			}
			synctest.Wait()
			require.Equal(t, !apart, slices.Contains(names(m), merged))
			e.keys = m.Keys()
			for len(heard) > 0 {
				e.heard = append(e.heard, <-heard)
			}
		})
		return e
	}
	for which := range 16 {
		state := [2]string{states[which%4], states[which/4]}
		for channels := range 4 {
			var subscribed []string
			if channels > 0 { // whoever waits for a name also subscribes to the waiters' channel
				subscribed = append(subscribed, command.WaitersChannel(""))
			}
			for i := range 2 {
				if channels>>i&1 != 0 {
					subscribed = append(subscribed, command.FreePrefix+string(rune('a'+i)))
				}
			}
			require.Equal(t, run(t, true, state, subscribed), run(t, false, state, subscribed), "%q, %v", state, subscribed)
		}
	}
}

// These releases are never merged with others.
func TestWhatIsNotMerged(t *testing.T) {
	for name, change := range map[string]func(c *call){
		"several names":     func(c *call) { *c = *announcing("T", "a", "b"); c.To = c },
		"own subscription":  func(c *call) { command.NewAnnouncingRelease(&c.Req, terms("T", []string{"a"}), 1, 0) },
		"sent before":       func(c *call) { c.MarkSent(); c.MarkResend() },
		"not announced":     func(c *call) { command.NewRelease(&c.Req, terms("T", []string{"a"})) },
		"before a handoff":  func(c *call) { command.NewCountingRelease(&c.Req, terms("T", []string{"a"}), 0) },
		"of a minimum hold": func(c *call) { command.NewShorten(&c.Req, terms("T", []string{"a"}), time.Second, mostTTL) },
	} {
		t.Run(name, func(t *testing.T) {
			merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("a", "T", longTTL)
				m.Set("b", "T", longTTL)
				first, c := announcing("T", "z"), announcing("T", "a")
				change(c)
				together(n, first, c)
				require.Equal(t, command.Granted, c.Reply(t).Outcome)
				require.Equal(t, command.Refused, first.Reply(t).Outcome)
				require.NotContains(t, names(m), merged)
			})
		})
	}
	merging(t, func(c *Config) { c.Proxied = true }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		a, b := announcing("T", "a"), announcing("T", "b")
		together(n, a, b)
		require.Equal(t, command.Refused, a.Reply(t).Outcome)
		require.Equal(t, command.Refused, b.Reply(t).Outcome)
		require.NotContains(t, names(m), merged)
		require.Zero(t, n.Stats().Merged)
	})
}

// failMerged answers the next merged calls with a reply, and returns how many it has answered.
func failMerged(m *fakeredis.Master, reply string) (answered *int) {
	answered = new(int)
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		if cmd == "EVALSHA" && sub(fakeredis.Entry{Name: cmd, Args: args}) == "release+merge" {
			*answered++
			return reply, true
		}
		return "", false
	})
	return answered
}

// After an error each release goes on by itself. One that finds nothing may have been executed
// before, so its result is Unknown. A missing right ends the merging on that connection.
func TestReleasesOfAFailedCallAreSentByThemselves(t *testing.T) {
	for reply, again := range map[string]bool{
		"BUSY Redis is busy running a script":                           true,
		"MISCONF Errors writing to the disk":                            true,
		"NOPERM this user has no permissions to run the 'mget' command": false,
		"ERR something else":                                            false,
	} {
		t.Run(reply, func(t *testing.T) {
			merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("a", "T", longTTL)
				answered := failMerged(m, reply)
				for round := range 2 {
					a, b := announcing("T", "a"), announcing("T", "b")
					together(n, a, b)
					require.Equal(t, round == 0, a.Reply(t).Outcome == command.Granted)
					r := b.Reply(t)
					if round == 0 || again {
						require.Equal(t, command.Unknown, r.Outcome)
						require.True(t, r.Undone)
					} else {
						require.Equal(t, command.Refused, r.Outcome)
					}
				}
				require.Empty(t, m.Keys())
				require.Equal(t, again, *answered == 2)
				s := n.Stats()
				require.Equal(t, int64(2**answered), s.Unmerged)
				require.Equal(t, 1, s.Connected)
				require.Zero(t, s.Violations)
			})
		})
	}
}

// A server that does not know the script has executed nothing. So a release that then finds nothing has
// lost its key, as it would by itself.
func TestAReleaseThatFindsNothingAfterNOSCRIPTIsRefused(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.LoseScripts()
		m.Set("a", "T", longTTL)
		m.Set("b", "another", longTTL)
		a, b := announcing("T", "a"), announcing("T", "b")
		together(n, a, b)
		require.Equal(t, command.Granted, a.Reply(t).Outcome)
		r := b.Reply(t)
		require.Equal(t, command.Refused, r.Outcome)
		require.False(t, r.Undone)
		require.Equal(t, int64(2), n.Stats().Unmerged)
	})
}

// A server that has lost the script gets the texts of what it could not execute, and that of the script
// with the next call.
func TestAMergedScriptThatIsLostIsSentByItsText(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.LoseScripts()
		for _, want := range [][]string{
			{merged, "EVAL release+announce", "EVAL release+announce"},
			{"EVAL release+merge"},
			{merged},
		} {
			m.Set("a", "T", longTTL)
			m.Set("b", "T", longTTL)
			m.ForgetLog()
			a, b := announcing("T", "a"), announcing("T", "b")
			together(n, a, b)
			require.Equal(t, command.Granted, a.Reply(t).Outcome)
			require.Equal(t, command.Granted, b.Reply(t).Outcome)
			require.Equal(t, want, quiet(m))
		}
	})
}

// Such a reply says nothing about any release. The connection ends, and the releases are sent again on the next
// one.
func TestAReplyToAMergedCallThatMakesNoSenseEndsTheConnection(t *testing.T) {
	for _, reply := range []string{":1", "$2\r\n14", "*2\r\n:1\r\n:1"} {
		t.Run(reply, func(t *testing.T) {
			merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("a", "T", longTTL)
				m.Set("b", "T", longTTL)
				failMerged(m, reply+"\r\n")
				a, b := announcing("T", "a").Within(n, longTTL), announcing("T", "b").Within(n, longTTL)
				together(n, a, b)
				for _, c := range []*call{a, b} {
					r := c.Reply(t)
					require.Equal(t, command.Unknown, r.Outcome)
					require.NotErrorIs(t, r.Err, ErrDisconnected)
					require.True(t, r.Retrying)
					require.Equal(t, command.Granted, c.Reply(t).Outcome, "of the repetition")
				}
				require.Empty(t, m.Keys())
				require.Equal(t, int64(1), n.Stats().Violations)
				require.Equal(t, int64(2), n.Stats().Dials)
			})
		})
	}
}

// If the connection ends in the middle, each release is sent again by itself on the next one.
func TestMergedReleasesWithoutAnAnswerAreSentByThemselves(t *testing.T) {
	for _, executed := range []bool{false, true} {
		merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.Set("a", "T", longTTL)
			m.Set("b", "other", longTTL)
			c := only(t, m)
			if executed {
				c.HoldReplies()
			} else {
				c.HoldRequests()
			}
			a, b := announcing("T", "a").Within(n, longTTL), announcing("T", "b").Within(n, longTTL)
			together(n, a, b)
			synctest.Wait()
			require.Equal(t, executed, len(m.Keys()) == 1)
			c.Drop()
			r := a.Reply(t)
			if executed {
				require.Equal(t, command.Unknown, r.Outcome)
				require.True(t, r.Undone)
			} else {
				require.Equal(t, command.Granted, r.Outcome)
			}
			require.Equal(t, command.Unknown, b.Reply(t).Outcome, "it may have released the key before")
			require.Equal(t, []string{"b"}, m.Keys())
			require.LessOrEqual(t, strings.Count(strings.Join(names(m), ","), merged), 1)
		})
	}
}

// A release that fails for a missing right to announce is a release all the same. Others are taken
// to wait.
func TestMergedReleasesNeedNoRightToAnnounce(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("a", "T", longTTL)
		m.Deny("PUBSUB", "PUBLISH")
		a, b := announcing("T", "a"), announcing("T", "b")
		together(n, a, b)
		require.Equal(t, command.Reply{Outcome: command.Granted, Others: command.OthersUnknown}, a.Reply(t))
		require.Equal(t, command.Reply{Outcome: command.Refused}, b.Reply(t))
		require.Equal(t, []string{merged}, quiet(m))
	})
}

// A waiter subscribes to two channels, and polls the key when both are confirmed. Whenever a merged
// release comes, the waiter learns of it.
func TestNoMergedReleaseIsMissedByAWaiterThatSubscribes(t *testing.T) {
	channels := []string{command.WaitersChannel(""), command.FreePrefix + "a"}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		for releaseAt := range 4 {
			merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("a", "T", longTTL)
				heard := make(diary, 10)
				s := voterOf(n).Subscribe(heard)
				defer s.Close()
				release := func() {
					a, b := announcing("T", "a"), announcing("T", "b")
					together(n, a, b)
					require.Equal(t, command.Granted, a.Reply(t).Outcome)
					require.Equal(t, command.Refused, b.Reply(t).Outcome)
				}
				var free bool
				for step := range 4 {
					if step == releaseAt {
						release()
					}
					switch step {
					case 0, 1:
						s.Add(channels[order[step]])
						require.Equal(t, "subscribed "+channels[order[step]], <-heard)
					case 2:
						free = m.TTL("a") == 0
					}
				}
				synctest.Wait()
				require.True(t, free || len(heard) > 0, "order %v, released at %d", order, releaseAt)
			})
		}
	}
}

// The server is out of step. What it sent in the same packet is matched to no command.
func TestNoReplyBehindAMalformedReplyToMergedReleasesIsBelieved(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("a", "other", longTTL) // the SET NX must be refused
		failMerged(m, "$1\r\n1\r\n+OK\r\n")
		a, b := announcing("T", "a").Within(n, longTTL), announcing("T", "b").Within(n, longTTL)
		s := acquiring("N", longTTL, "a")
		together(n, a, b, s)
		r := s.Reply(t)
		require.Equal(t, command.Unknown, r.Outcome, "%+v; keys %v", r, m.Keys())
	})
}

func TestEveryReplyToMergedReleasesIsCounted(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		failMerged(m, "MISCONF x")
		a, b := announcing("T", "a"), announcing("T", "b")
		together(n, a, b)
		a.Reply(t)
		b.Reply(t)
		synctest.Wait()
		require.Equal(t, n.Stats().Written, answers(n))
	})
}

// Such a server has slots, although the node was not told so.
func TestNoReleaseIsMergedAfterCROSSSLOT(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		answered := failMerged(m, "CROSSSLOT Keys in request don't hash to the same slot")
		for range 5 {
			a, b := announcing("T", "a"), announcing("T", "b")
			together(n, a, b)
			a.Reply(t)
			b.Reply(t)
		}
		require.Equal(t, 1, *answered)
	})
}

func TestAReleaseIsUnknownWhoseReplyMadeNoSense(t *testing.T) {
	for _, apart := range []bool{true, false} {
		merging(t, func(c *Config) { c.Proxied = apart }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			// The server executes the releases (here: the keys are gone), but its reply is broken.
			bad := 1
			if apart {
				bad = 2
			}
			m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == "EVALSHA" && bad > 0 {
					bad--
					return "$1\r\n1\r\n", true
				}
				return "", false
			})
			a, b := announcing("T", "a").Within(n, longTTL), announcing("T", "b").Within(n, longTTL)
			together(n, a, b)
			for _, c := range []*call{a, b} {
				r := c.Reply(t)
				require.Equal(t, command.Unknown, r.Outcome)
				require.Equal(t, command.Unknown, c.Reply(t).Outcome, "the repetition finds no key")
			}
		})
	}
}

func TestARepetitionIsNotMerged(t *testing.T) {
	merging(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		a, b := announcing("T", "a"), announcing("T", "b")
		a.Retries, b.Retries = 1, 1
		together(n, a, b)
		a.Reply(t)
		b.Reply(t)
		require.NotContains(t, names(m), merged)
	})
}

// The server executes the releases, but says so to nobody. Then it answers each by BUSY, and at last it
// finds no key. That is no loss of the lock.
func TestAReleaseThatMayHaveBeenExecutedIsNeverRefused(t *testing.T) {
	for _, how := range []string{"dead connection, separate", "dead connection, merged", "merged error"} {
		t.Run(how, func(t *testing.T) {
			merging(t, func(c *Config) { c.Proxied = how == "dead connection, separate" }, func(t *testing.T, m *fakeredis.Master, n *Node) {
				m.Set("a", "T", longTTL)
				m.Set("b", "T", longTTL)
				busy, step := 2, 0
				m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
					if cmd != "EVALSHA" {
						return "", false
					}
					name := sub(fakeredis.Entry{Name: cmd, Args: args})
					if how == "merged error" && name == "release+merge" && step == 0 {
						step = 1
						return "ERR something after the keys were deleted", true
					}
					if step == 1 && name == "release+announce" && busy > 0 {
						busy--
						return "BUSY Redis is busy running a script", true
					}
					return "", false
				})
				a, b := announcing("T", "a").Within(n, longTTL), announcing("T", "b").Within(n, longTTL)
				if how == "merged error" {
					m.Del("a")
					m.Del("b")
					together(n, a, b)
				} else {
					c := only(t, m)
					c.HoldReplies()
					together(n, a, b)
					synctest.Wait()
					require.Empty(t, m.Keys())
					step = 1
					c.Drop()
				}
				for _, c := range []*call{a, b} {
					r := c.Reply(t)
					for r.Retrying {
						r = c.Reply(t)
					}
					require.Equal(t, command.Unknown, r.Outcome)
					require.True(t, r.Undone)
				}
			})
		})
	}
}
