package pool

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// downs records why connections of a subscription ended.
type downs chan error

func (d downs) Subscribed(string)      {}
func (d downs) Message(string, string) {}
func (d downs) Down(err error)         { d <- err }

// docs/dev/hazards.md H111: this also holds for the subscription's connection.
func TestWhatASubscriptionSaysIsNotTheCallersDeadline(t *testing.T) {
	for name, fault := range map[string]func(m *fakeredis.Master){
		"silent, and then a mute server": func(m *fakeredis.Master) { m.Freeze() },
		"stopped":                        func(m *fakeredis.Master) { m.Stop() },
		"no right to subscribe":          func(m *fakeredis.Master) { m.Deny("SUBSCRIBE") },
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			heard := make(downs, 100)
			s := voterOf(n).Subscribe(heard)
			defer s.Close()
			synctest.Wait()
			fault(m)
			s.Add("a")
			for range 3 {
				err := <-heard
				require.Error(t, err, name)
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
				require.NotErrorIs(t, err, context.Canceled, name)
			}
		})
	}
}

func TestARefusedSubscriptionIsReportedAndTriedAgainAfterHalfAMinute(t *testing.T) {
	lines := make(chan string, 100)
	inBubble(t, func(c *Config) {
		c.Logger = slog.New(handler(func(msg string) { lines <- msg }))
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.Deny("SUBSCRIBE")
		heard := make(diary, 1000)
		s := voterOf(n).Subscribe(heard)
		defer s.Close()
		const tries = 4
		for range (tries - 1) * 30 * 2 { // waiters come and go
			s.Add("a")
			time.Sleep(250 * time.Millisecond)
			s.Remove("a")
			time.Sleep(250 * time.Millisecond)
		}
		s.Add("a")
		synctest.Wait()
		require.Equal(t, tries, count(m, "SUBSCRIBE"))
		require.Len(t, heard, tries)
		require.Equal(t, 1, m.Connections())
		require.Equal(t, command.Granted, pinging().Outcome(t, n), "the node itself is well")

		m.Deny()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, m.Connections())
		for range tries {
			require.Equal(t, "down", <-heard)
		}
		require.Equal(t, "subscribed a", <-heard)
		logged := map[string]int{}
		for len(lines) > 0 {
			logged[<-lines]++
		}
		require.Equal(t, map[string]int{"redlock node: connected": 1, "redlock node: server refuses SUBSCRIBE, so waiters poll, and may wait long beside processes with the right": 1}, logged)
	})
}

// A subscription needs neither facts nor scripts.
func TestASubscriptionGreetsWithoutScripts(t *testing.T) {
	greeting := func(t *testing.T, m *fakeredis.Master, n *Node) []string {
		t.Helper()
		synctest.Wait()
		m.ForgetLog()
		s := voterOf(n).Subscribe(make(diary, 10))
		defer s.Close()
		s.Add("a")
		synctest.Wait()
		return names(m)
	}
	onMaster(t, func(m *fakeredis.Master) { m.RequireAuth("user", "secret") }, func(c *Config) {
		c.Username, c.Password, c.Database = "user", "secret", 3
	}, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, []string{"AUTH", "SELECT", "CLIENT SETNAME", "SUBSCRIBE"}, greeting(t, m, n))
	})
	wrapping(t, servicePool, func(t *testing.T, m *fakeredis.Master, _ *redis.Pool, n *Node) {
		require.Equal(t, []string{"CLIENT SETNAME", "CLIENT SETNAME", "SUBSCRIBE"}, greeting(t, m, n), "the service's, and ours")
	})
}

func TestCloseOfASubscriptionDoesNotWaitForAFrozenMaster(t *testing.T) {
	for _, connected := range []bool{true, false} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			if !connected {
				m.Freeze()
			}
			s := voterOf(n).Subscribe(make(downs, 100))
			s.Add("a")
			synctest.Wait()
			m.Freeze()
			began := time.Now()
			s.Close()
			require.Zero(t, time.Since(began))
		})
	}
}
