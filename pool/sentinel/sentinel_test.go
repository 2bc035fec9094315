package sentinel

import (
	"context"
	"fmt"
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
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// extraQuarantine is MaxAge in tests, and counts4900 is how long a Sentinel's answer counts then.
const (
	extraQuarantine = 5 * time.Second
	counts4900      = extraQuarantine - extraQuarantine/50
)

// requireQuarantined asserts that a node does not vote, for how long at the most.
func requireQuarantined(t *testing.T, r command.Reply, left time.Duration) {
	t.Helper()
	var q *pool.QuarantineError
	require.ErrorAs(t, r.Err, &q)
	require.Equal(t, command.Failed, r.Outcome)
	require.Equal(t, left, q.Remaining)
}

// resolverOf returns what follows the Sentinels of a node.
func resolverOf(n *pool.Node) *resolver {
	_, shape := node.Of(n)
	return shape.(*resolver)
}

// behindSentinels runs a test in a bubble on a node behind three Sentinels that all name A.
func behindSentinels(t *testing.T, change func(c *pool.Config), f func(t *testing.T, h *nodetest.Group, n *pool.Node)) {
	t.Helper()
	nodetest.OnGroup(t, func(t *testing.T, h *nodetest.Group) {
		cfg := pool.Config{Name: "n1", Dial: h.Dial, Clock: clock.Runtime(), Kind: &Config{Master: "m", MaxAge: extraQuarantine, Addresses: h.Addresses()}}
		if change != nil {
			change(&cfg)
		}
		n, err := pool.Open(cfg)
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		f(t, h, n)
	})
}

// holdingUnder is acquiringUnder with the longest TTL.
func holdingUnder(token, key string) *nodetest.Call {
	return nodetest.Under(token, func(r *command.Request, t *command.LockArgs) {
		command.NewAcquire(r, t, nodetest.GuardTTL, nodetest.GuardTTL)
	}, key)
}

// votesAs waits until the node votes.
func votesAs(t *testing.T, n *pool.Node, m *fakeredis.Master) {
	t.Helper()
	requireQuarantined(t, nodetest.AcquiringUnder("warm-up", "w").On(n).Reply(t), nodetest.GuardTTL+extraQuarantine)
	time.Sleep(nodetest.GuardTTL + extraQuarantine + 2*time.Millisecond)
	synctest.Wait()
	require.Equal(t, command.Granted, nodetest.PingingUnder().Outcome(t, n))
	m.ForgetLog()
}

func TestANodeIsTheMasterThatAMajorityOfItsSentinelsNames(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		h.Sentinels[2].SetMaster("m", h.B.Addr())
		votesAs(t, n, h.A)
		require.Equal(t, command.Granted, nodetest.AcquiringUnder("A", "k").Outcome(t, n))
		require.Contains(t, h.A.Keys(), "k")
		require.Equal(t, 2, n.Stats().Sentinels)
		require.Zero(t, n.Stats().Switches)
		require.Zero(t, h.B.Connections())
	})
}

// docs/dev/rules.md rule 29: S is part of the marker, and every quarantine is longer by S.
func TestAQuarantineBehindSentinelsLastsLongerByWhatTheirWordCounts(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		requireQuarantined(t, nodetest.AcquiringUnder("A", "k").On(n).Reply(t), nodetest.GuardTTL+extraQuarantine)
		text, _ := h.A.Get(guard.Key)
		m, err := guard.ParseMarker(text)
		require.NoError(t, err)
		require.Equal(t, extraQuarantine, m.MaxAge)
		time.Sleep(nodetest.GuardTTL + extraQuarantine - time.Second)
		requireQuarantined(t, nodetest.AcquiringUnder("A", "k").On(n).Reply(t), time.Second)
		time.Sleep(time.Second + 2*time.Millisecond)
		synctest.Wait()
		require.Equal(t, command.Granted, nodetest.AcquiringUnder("A", "k").Outcome(t, n))
	})
}

// docs/dev/hazards.md H102: the client, the old master and one Sentinel are on one side of a
// partition. The answers of the other two Sentinels are lost.
func TestBehindAPartitionTheOldMasterStopsVoting(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		time.Sleep(10 * time.Second) // whatever phase the queries are in
		h.Sentinels[1].Freeze()
		h.Sentinels[2].Freeze()
		cut := nodetest.Now(n)
		for nodetest.Now(n).Sub(cut) < counts4900-extraQuarantine/pollsPerMaxAge-time.Millisecond {
			require.Equal(t, command.Granted, nodetest.PingingUnder().Outcome(t, n))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(cut.Add(counts4900).Sub(nodetest.Now(n)))
		h.A.ForgetLog()
		for _, unsafe := range []bool{true, false} { // WithUnsafeNodes makes no exception
			nodetest.Except(n, unsafe)
			for _, c := range []*nodetest.Call{
				nodetest.AcquiringUnder("A", "k"), nodetest.ExtendingUnder("A", "k"), nodetest.InspectingUnder("k"), nodetest.PingingUnder(),
				nodetest.Under("A", func(r *command.Request, t *command.LockArgs) { t.SetCounters(false); command.NewConfirm(r, t, 7) }, "k"),
				nodetest.Under("A", func(r *command.Request, t *command.LockArgs) {
					command.NewRepair(r, t, time.Second, nodetest.GuardTTL, 0)
				}, "k"),
			} {
				nodetest.RequireUnfit(t, c.On(n).Reply(t), "n1 follows 3 Sentinels, of which 2 must name one master as m within 5s",
					"s1:6379 named a:6379", "s2:6379")
			}
		}
		time.Sleep(time.Minute)
		require.Empty(t, nodetest.Quiet(h.A), "nothing was sent, not even the guard's question")
		require.Equal(t, 1, n.Stats().Sentinels)

		h.Sentinels[1].Unfreeze()
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, nodetest.PingingUnder().Outcome(t, n), "it never lost its locks")
	})
}

// Undos are sent to the connected server, because the old master may become the master again.
func TestAnUndoIsSentWhateverTheSentinelsSay(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		require.Equal(t, command.Granted, holdingUnder("A", "k").Outcome(t, n))
		for _, s := range h.Sentinels {
			s.Stop()
		}
		time.Sleep(extraQuarantine)
		nodetest.RequireUnfit(t, nodetest.ExtendingUnder("A", "k").On(n).Reply(t), "cannot be queried")
		require.Equal(t, command.Granted, nodetest.Releasing("A", "k").Outcome(t, n))
		require.NotContains(t, h.A.Keys(), "k")
	})
}

func TestAnAnswerThatComesWhenItsMasterIsNotNamedAnyMoreIsNoVote(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		for _, s := range h.Sentinels {
			s.Freeze()
		}
		time.Sleep(3 * time.Second)
		h.A.SetDelay(3 * time.Second)
		grant, release := holdingUnder("A", "k").On(n), nodetest.Releasing("A", "other").On(n)
		r := grant.Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorContains(t, r.Err, "follows 3 Sentinels")
		require.Contains(t, h.A.Keys(), "k", "it was granted")
		require.Equal(t, command.Refused, release.Reply(t).Outcome, "no vote, and so an answer like any")
	})
}

func TestANodeFollowsItsSentinelsToAnotherMasterAtOnce(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		h.Promote(1)
		synctest.Wait()
		require.Equal(t, command.Granted, nodetest.PingingUnder().Outcome(t, n), "one is no majority")
		h.Promote(2)
		synctest.Wait()
		require.Zero(t, h.A.Connections(), "the announcement was heard")
		require.Equal(t, int64(1), n.Stats().Switches)
		requireQuarantined(t, nodetest.AcquiringUnder("B", "k").On(n).Reply(t), nodetest.GuardTTL+extraQuarantine)
		require.NotContains(t, h.A.Keys(), "k")
	})
}

func TestWithoutAnAnnouncementItIsFollowedByAQuestion(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		for _, s := range h.Sentinels {
			s.SetMaster("m", h.B.Addr())
		}
		time.Sleep(extraQuarantine / pollsPerMaxAge)
		synctest.Wait()
		require.Zero(t, h.A.Connections())
		require.NotZero(t, h.B.Connections())
	})
}

// A majority counts all configured Sentinels, not only those that answer.
func TestTwoOfFiveSentinelsAreNoMajority(t *testing.T) {
	behindSentinels(t, func(c *pool.Config) {
		c.Kind.(*Config).Addresses = append(c.Kind.(*Config).Addresses, "s4:6379", "s5:6379")
	}, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		h.Sentinels[2].Stop()
		time.Sleep(extraQuarantine)
		nodetest.RequireUnfit(t, nodetest.PingingUnder().On(n).Reply(t), "of which 3 must name", "s4:6379 cannot be queried")
	})
}

func TestTheSentinelsHaveAPasswordOfTheirOwn(t *testing.T) {
	var of *Config
	behindSentinels(t, func(c *pool.Config) {
		c.Password = "masters"
		of = c.Kind.(*Config)
		of.Username, of.Password = "watcher", "theirs"
	}, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		h.A.RequireAuth("default", "masters")
		for _, s := range h.Sentinels {
			s.RequireAuth("watcher", "theirs")
			for _, c := range s.Clients() {
				c.Drop()
			}
		}
		for _, c := range h.A.Clients() {
			c.Drop()
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, n.Stats().Connected)
		require.Equal(t, 3, n.Stats().Sentinels)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %v %+v %#v %#v", of, of, of, *of, *of, *of, n), "theirs")
	})
}

func TestANodeSaysWhatItsSentinelsSaid(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		h.Sentinels[1].SetMaster("m", "")
		h.Sentinels[2].Stop()
		time.Sleep(10 * time.Second)
		r := nodetest.AcquiringUnder("A", "k").On(n).Reply(t)
		nodetest.RequireUnfit(t, r, "s1:6379 named a:6379; s2:6379 does not know the master; s3:6379 cannot be queried (pool: no connection: ")
		require.Equal(t, 1, strings.Count(r.Err.Error(), "s3:6379 cannot"))
	})
}

func TestASentinelThatDoesNotAnswerInTimeIsCalledSilent(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		for _, s := range h.Sentinels[1:] {
			s.Freeze()
		}
		// The next query is given up by then, and the dial behind it not yet.
		time.Sleep(extraQuarantine/pollsPerMaxAge + extraQuarantine)
		synctest.Wait()
		err := command.FromPool(n).WhyNotVoting()
		require.ErrorContains(t, err, "s2:6379 cannot be queried (no answer within MaxAge)")
		require.ErrorContains(t, err, "s3:6379 cannot be queried (no answer within MaxAge)")
	})
}

func TestANodeWithoutItsSentinelsFailsAtOnceAndConnectsWhenTheyAreThere(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		for _, s := range h.Sentinels {
			s.Stop()
		}
		h.A.Stop()
		time.Sleep(time.Minute)
		began := nodetest.Now(n)
		nodetest.RequireUnfit(t, nodetest.AcquiringUnder("A", "k").On(n).Reply(t), "follows 3 Sentinels")
		require.Zero(t, nodetest.Now(n).Sub(began))
		require.NoError(t, h.A.Restart(false))
		for _, s := range h.Sentinels[1:] {
			require.NoError(t, s.Restart(false))
		}
		time.Sleep(time.Second)
		votesAs(t, n, h.A)
	})
}

func TestTheFirstCommandWaitsForTheSentinelsAndTheDial(t *testing.T) {
	behindSentinels(t, func(c *pool.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(100 * time.Millisecond)
			return dial(ctx, network, address)
		}
	}, func(t *testing.T, _ *nodetest.Group, n *pool.Node) {
		requireQuarantined(t, nodetest.AcquiringUnder("A", "k").On(n).Reply(t), nodetest.GuardTTL+extraQuarantine)
	})
}

func TestASubscriptionFollowsToo(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		l := &heard{}
		s := command.FromPool(n).Subscribe(l)
		defer s.Close()
		s.Add("c")
		synctest.Wait()
		require.Equal(t, 2, h.A.Connections())
		h.Promote(3)
		time.Sleep(time.Second)
		require.Zero(t, h.A.Connections())
		require.Equal(t, 2, h.B.Connections())
	})
}

// heard is a listener that ignores everything.
type heard struct{}

func (*heard) Subscribed(string)      {}
func (*heard) Message(string, string) {}
func (*heard) Down(error)             {}

func TestAWrongListOfSentinelsIsRefused(t *testing.T) {
	good := func() (*pool.Config, *Config) {
		of := &Config{Master: "m", Addresses: []string{"b:1", "a:1"}}
		return &pool.Config{Kind: of}, of
	}
	for want, change := range map[string]func(c *pool.Config, of *Config){
		"a Sentinel is listed twice: it would be counted":      func(_ *pool.Config, of *Config) { of.Addresses[0] = "A:1" },
		"sentinel.Config.Master's length is 0":                 func(_ *pool.Config, of *Config) { of.Master = "" },
		"the number of sentinel.Config.Addresses is 0":         func(_ *pool.Config, of *Config) { of.Addresses = nil },
		`sentinel.Config.Addresses is "c", must be host:port`:  func(_ *pool.Config, of *Config) { of.Addresses[0] = "c" },
		"a Sentinel is listed twice":                           func(_ *pool.Config, of *Config) { of.Addresses[0] = "a:1" },
		"sentinel.Config.MaxAge is 1ms, must be 100ms to 1m0s": func(_ *pool.Config, of *Config) { of.MaxAge = time.Millisecond },
		"sentinel.Config.MaxAge is 150.001ms, must be whole":   func(_ *pool.Config, of *Config) { of.MaxAge = 150001 * time.Microsecond },
		"empty with Sentinels":                                 func(c *pool.Config, _ *Config) { c.Address = "h:1" },
		"tcp with Sentinels":                                   func(c *pool.Config, _ *Config) { c.Network = "unix" },
		"a node is Proxied or follows Sentinels":               func(c *pool.Config, _ *Config) { c.Proxied = true },
		"sentinel.Config.Master's length is 0, must":           func(c *pool.Config, _ *Config) { c.Kind = (*Config)(nil) },
	} {
		c, of := good()
		change(c, of)
		_, err := pool.Open(*c)
		require.ErrorContains(t, err, want)
	}
	c, of := good()
	require.Equal(t, "m@a:1/0", c.DefaultName())
	require.Equal(t, "redis+sentinel://b:1,a:1/m/0", c.String())
	require.Equal(t, c.String(), of.String())
}

// Each answer takes 4 s, and the next query follows 1 s later. In every 5 s an answer counts from
// its arrival until 4.9 s after its query.
func TestASentinelsAnswerCountsFromBeforeItsQuery(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		for _, s := range h.Sentinels {
			s.SetDelay(4 * time.Second)
		}
		time.Sleep(20 * time.Second)
		votes := 0
		for range 500 {
			if nodetest.PingingUnder().Outcome(t, n) == command.Granted {
				votes++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 90, votes, 10, "0.9 s of every 5 s")
	})
}

// One Sentinel announces without end. The others are queried about ten times a second.
func TestAFloodOfAnnouncementsIsNoFloodOfQuestions(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, _ *pool.Node) {
		for _, s := range h.Sentinels {
			s.ForgetLog()
		}
		for range 1000 { // 10 s
			h.Sentinels[0].Failover("m", h.A.Addr())
			time.Sleep(10 * time.Millisecond)
		}
		asked := nodetest.Count(h.Sentinels[1].Master, "SENTINEL")
		require.Less(t, asked, 2*10*50, "two commands a question")
		require.Greater(t, asked, 2*10)
	})
}

// After an outage a Sentinel that drops one connection would otherwise be asked again after the longest pause.
func TestAnAnswerEndsThePausesBetweenDialsOfASentinel(t *testing.T) {
	const longest = time.Minute
	behindSentinels(t, func(c *pool.Config) { c.RedialMax = longest }, func(t *testing.T, h *nodetest.Group, _ *pool.Node) {
		s := h.Sentinels[0]
		s.Stop()
		time.Sleep(5 * longest)
		require.NoError(t, s.Restart(true))
		time.Sleep(longest)
		s.ForgetLog()
		for nodetest.Count(s.Master, "SENTINEL") == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		for _, c := range s.Clients() {
			c.Drop()
		}
		s.ForgetLog()
		time.Sleep(extraQuarantine/pollsPerMaxAge + 100*time.Millisecond) // the next question finds the connection closed
		require.Positive(t, nodetest.Count(s.Master, "SENTINEL"))
	})
}

// The node would otherwise keep the connection to a former master, and not vote.
func TestAMasterThatIsReplacedDuringItsDialIsNotKept(t *testing.T) {
	var slow atomic.Bool
	change := func(c *pool.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return conn, err
		}
	}
	behindSentinels(t, change, func(t *testing.T, h *nodetest.Group, _ *pool.Node) {
		slow.Store(true)
		nodetest.Only(t, h.A).Drop()
		time.Sleep(500 * time.Millisecond)
		h.Promote(3)
		time.Sleep(5 * time.Second)
		require.Zero(t, h.A.Connections())
		require.Equal(t, 1, h.B.Connections())
	})
}

// The address that a Sentinel names is written to logs, and is dialled.
func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, wrong := range [][]any{
		{"", "1"},
		{"h", ""},
		{"h", "0"},
		{"h", "65536"},
		{"h", "-1"},
		{"h", "x"},
		{"h\x1b[2J", "1"},
		{"h h", "1"},
		{strings.Repeat("h", 256), "1"},
		{"h"},
		{"h", "1", "2"},
	} {
		_, err := masterIn(wrong, nil)
		require.ErrorIs(t, err, named.ErrNoAddress, "%q", wrong)
	}
	got, err := masterIn([]any{"::1", "65535"}, nil)
	require.NoError(t, err)
	require.Equal(t, "[::1]:65535", got)
}

// A Sentinel that is down is dialled more and more rarely, as RedialMax and its jitter allow.
func TestADeadSentinelIsDialledSeldom(t *testing.T) {
	var dials atomic.Int64
	change := func(c *pool.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address[0] == 's' {
				dials.Add(1)
			}
			return dial(ctx, network, address)
		}
	}
	behindSentinels(t, change, func(t *testing.T, h *nodetest.Group, _ *pool.Node) {
		h.Sentinels[0].Stop()
		time.Sleep(10 * time.Second) // the pause has grown
		dials.Store(0)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, dials.Load(), int64(2*60*4))
	})
}

func TestANodeWhoseSentinelsAreSilentDoesNotVote(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		require.NoError(t, command.FromPool(n).WhyNotVoting())
		for _, s := range h.Sentinels[:2] {
			s.Stop()
		}
		time.Sleep(2 * extraQuarantine)
		require.ErrorIs(t, command.FromPool(n).WhyNotVoting(), command.ErrUnfit)
	})
}
