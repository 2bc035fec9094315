package pool

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/pipenet"
)

func TestANodeIsLookedAtEveryTenSecondsAndEachSecondWhileItIsUnfit(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.ForgetLog()
		time.Sleep(time.Minute + time.Second)
		require.Equal(t, []string{"INFO", "INFO", "INFO", "INFO", "INFO", "INFO"}, names(m))
		m.SetInfo("maxmemory", "1000")
		m.SetInfo("maxmemory_policy", "allkeys-lru")
		time.Sleep(healthyEvery)
		m.ForgetLog()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10, count(m, "INFO"), 1)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// The server at the address has another process, role or history. Everything is read again, on
// another connection.
func TestAServerWithAnotherIdentityIsDialledAgain(t *testing.T) {
	for field, value := range map[string]string{
		"run_id": "1111111111111111111111111111111111111111", "role": "slave",
		"master_replid2": "2222222222222222222222222222222222222222",
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			m.SetInfo(field, value)
			time.Sleep(healthyEvery + time.Second)
			require.Equal(t, int64(2), n.Stats().Dials, field)
			require.Equal(t, 1, m.Connections())
			time.Sleep(time.Minute)
			require.Equal(t, int64(2), n.Stats().Dials, field)
		})
	}
}

// docs/dev/rules.md rule 15: the answer ends the connection. After the redial everything was read
// again.
func TestAnAnswerThatSaysThatTheServerHasTurnedEndsTheConnection(t *testing.T) {
	for _, state := range []string{"READONLY You can't write", "MASTERDOWN Link with MASTER is down", "LOADING Redis is loading"} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			m.FailWith("SET", state)
			r := acquiring("A", longTTL, "k").On(n).Reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			require.ErrorContains(t, r.Err, state)
			m.FailWith("SET", "")
			require.Equal(t, command.Granted, acquiring("B", longTTL, "k").Outcome(t, n), "it waits for the dial")
			require.Equal(t, int64(2), n.Stats().Dials)
		})
	}
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.FailWith("SET", "OOM command not allowed")
		require.Equal(t, command.Failed, acquiring("A", longTTL, "k").Outcome(t, n))
		time.Sleep(time.Second)
		require.Equal(t, int64(1), n.Stats().Dials, "of this it was known that it is a master")
	})
}

// A server is known to be a replica, so its answer is nothing new. Undos that it refuses again and
// again cost no connections.
func TestAReplicaThatRefusesUndosIsNotDialledForEach(t *testing.T) {
	replica := func(m *fakeredis.Master) {
		m.SetInfo("role", "slave")
		m.FailWith("EVALSHA", "READONLY You can't write against a read only replica.")
	}
	onMaster(t, replica, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.Set("k", "A", time.Hour)
		for range 10 {
			require.Equal(t, command.Failed, releasing("A", "k").Within(n, time.Hour).Outcome(t, n))
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(1), n.Stats().Dials)
		m.SetInfo("role", "")
		m.FailWith("EVALSHA", "")
		time.Sleep(2 * time.Second)
		require.Empty(t, m.Keys(), "and once it is a master what was owed is undone")
	})
}

// Health checks are matched with their replies like all other commands. They also detect a frozen
// server, like any command.
func TestHealthChecksAreCommandsLikeOthers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.SetInfo("maxmemory", "1000")
		m.SetInfo("maxmemory_policy", "allkeys-lru") // a check each second
		m.SetDelay(300 * time.Millisecond)
		except(n, true)
		for i := range 50 {
			call := acquiring("A", time.Second, "k").On(n)
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			undo := releasing("A", "k").On(n)
			require.Equal(t, command.Granted, call.Reply(t).Outcome)
			require.Equal(t, command.Granted, undo.Reply(t).Outcome)
			holds := inspecting("k").On(n).Reply(t).KeyStates
			require.Equal(t, []command.KeyState{{}}, holds)
		}
		require.Equal(t, int64(1), n.Stats().Dials)
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.Freeze()
		time.Sleep(healthyEvery + n.cfg.HardTimeout*5/4 + n.cfg.DialTimeout + time.Second)
		r := pinging().On(n).Reply(t)
		requireUnsent(t, r)
		m.Unfreeze()
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
	})
}

// tallying is a clock that counts its waiting timers.
type tallying struct {
	clock.Clock
	waiting atomic.Int64
}

type tallyingTimer struct {
	clock.Timer
	of      *tallying
	waiting *atomic.Bool
}

func (c *tallying) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := tallyingTimer{of: c, waiting: &atomic.Bool{}}
	t.waiting.Store(true)
	c.waiting.Add(1)
	fired := t // without the timer, which may fire before it is stored
	t.Timer = c.Clock.AfterFunc(d, func() {
		fired.count(false)
		f()
	})
	return t
}

func (t tallyingTimer) count(waiting bool) {
	if t.waiting.Swap(waiting) != waiting {
		if waiting {
			t.of.waiting.Add(1)
		} else {
			t.of.waiting.Add(-1)
		}
	}
}

func (t tallyingTimer) Stop() bool {
	t.count(false)
	return t.Timer.Stop()
}

func (t tallyingTimer) Reset(d time.Duration) bool {
	t.count(true)
	return t.Timer.Reset(d)
}

func TestNoTimerOutlivesClose(t *testing.T) {
	for what, before := range map[string]func(t *testing.T, m *fakeredis.Master, n *Node){
		"a fit node": func(*testing.T, *fakeredis.Master, *Node) {},
		"an unfit one": func(_ *testing.T, m *fakeredis.Master, _ *Node) {
			m.SetInfo("role", "slave")
			time.Sleep(time.Minute + unhealthyEvery/2)
		},
		"a look under way": func(_ *testing.T, m *fakeredis.Master, _ *Node) {
			m.Freeze()
			time.Sleep(healthyEvery + time.Second)
		},
		"undos that are repeated": func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.FailWith("EVALSHA", "BUSY Redis is busy running a script.")
			for range 10 {
				require.Equal(t, command.Failed, releasing("A", "k").Within(n, time.Hour).Outcome(t, n))
			}
			time.Sleep(5 * time.Second)
		},
		"an undo of a late acquire": func(t *testing.T, m *fakeredis.Master, n *Node) {
			m.Deny("CLIENT KILL")
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			loseAcquire(t, m, n)
			require.Equal(t, command.Refused, releasing("A", "k").Within(n, longTTL).Outcome(t, n))
		},
		"two quarantines": func(t *testing.T, _ *fakeredis.Master, n *Node) {
			for range 2 {
				requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
			}
		},
	} {
		c := &tallying{}
		inBubble(t, func(cfg *Config) { c.Clock = cfg.Clock; cfg.Clock = c }, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			before(t, m, n)
			require.Positive(t, c.waiting.Load(), what)
			require.NoError(t, n.Close())
			require.Zero(t, c.waiting.Load(), what)
		})
	}
}

// A server that finishes the handshake, answers once and closes was dialled a thousand times a
// second. The pause may be skipped only after a connection that lasted for some time.
func TestAServerThatAnswersOnceAndHangsUpIsNotDialledInAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open(Config{Name: "n", Address: "n", Clock: clock.Runtime(), Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := pipenet.Pipe("client", "server")
			go fake(func(name string, args []string) (string, error) {
				reply, _ := wellBehaved(name, args)
				if name == "PING" {
					return reply, errHangUp
				}
				return reply, nil
			}).serve(server)
			return client, nil
		}})
		require.NoError(t, err)
		defer n.Close()
		before := n.Stats().Dials
		for began := time.Now(); time.Since(began) < time.Minute; {
			pinging().On(n).Reply(t)
		}
		require.Less(t, n.Stats().Dials-before, int64(300))

		time.Sleep(time.Minute) // now it has lasted long enough
		dials := n.Stats().Dials
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		synctest.Wait()
		require.Equal(t, dials+1, n.Stats().Dials, "and the next dial comes at once")
	})
}

// The reason for such an end is logged, and is the error of all commands that lose their answers.
func TestTheEndOfAConnectionShowsNoToken(t *testing.T) {
	const token = "me:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var log strings.Builder
	inBubble(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.FailWith("SET", "READONLY not SET k "+token)
		r := acquiring(token, longTTL, "k").On(n).Reply(t)
		require.ErrorContains(t, r.Err, "READONLY")
		require.NotContains(t, r.Err.Error(), "ABCDEFGH")
		synctest.Wait()
	})
	require.Contains(t, log.String(), "connection ended")
	require.Contains(t, log.String(), "READONLY")
	require.NotContains(t, log.String(), "ABCDEFGH")
}
