package pool

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// extraQuarantine is MaxAge in tests, and counts4900 is how long a Sentinel's answer counts then.
const (
	extraQuarantine = 5 * time.Second
	counts4900      = extraQuarantine - extraQuarantine/50
)

// group is two servers, one of which is the master, and their Sentinels.
type group struct {
	a, b      *fakeredis.Master
	sentinels []*fakeredis.Sentinel
}

// behindSentinels runs a test in a bubble on a node behind three Sentinels that all name a.
func behindSentinels(t *testing.T, change func(c *Config), f func(t *testing.T, h *group, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &group{a: fakeredis.New("a"), b: fakeredis.New("b")}
		cfg := Config{Name: "n1", Dial: h.dial, Clock: clock.Runtime(), Sentinels: &Sentinels{Master: "m", MaxAge: extraQuarantine}}
		for i := range 3 {
			s := fakeredis.NewSentinel(fmt.Sprintf("s%d", i+1), 2)
			s.SetMaster("m", h.a.Addr())
			h.sentinels = append(h.sentinels, s)
			cfg.Sentinels.Addresses = append(cfg.Sentinels.Addresses, s.Addr())
		}
		defer h.close()
		if change != nil {
			change(&cfg)
		}
		n, err := Open(cfg)
		require.NoError(t, err)
		defer n.Close()
		synctest.Wait()
		f(t, h, n)
	})
}

func (h *group) close() {
	h.a.Close()
	h.b.Close()
	for _, s := range h.sentinels {
		s.Close()
	}
}

// dial connects to the server that has the address.
func (h *group) dial(ctx context.Context, network, address string) (net.Conn, error) {
	all := []*fakeredis.Master{h.a, h.b}
	for _, s := range h.sentinels {
		all = append(all, s.Master)
	}
	for _, m := range all {
		if m.Addr() == address {
			return m.Dial(ctx, network, address)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
}

// promote makes that many Sentinels name and announce b as the master.
func (h *group) promote(sentinels int) {
	for _, s := range h.sentinels[:sentinels] {
		s.Failover("m", h.b.Addr())
	}
}

// holdingUnder is acquiringUnder with the longest TTL.
func holdingUnder(token, key string) *call {
	return under(token, func(r *command.Request, t *command.LockArgs) { command.NewAcquire(r, t, guardTTL, guardTTL) }, key)
}

// votesAs waits until the node votes.
func votesAs(t *testing.T, n *Node, m *fakeredis.Master) {
	t.Helper()
	requireQuarantined(t, acquiringUnder("warm-up", "w").on(n).reply(t), guardTTL+extraQuarantine)
	time.Sleep(guardTTL + extraQuarantine + 2*time.Millisecond)
	synctest.Wait()
	require.Equal(t, command.Granted, pingingUnder().outcome(t, n))
	m.ForgetLog()
}

func TestANodeIsTheMasterThatAMajorityOfItsSentinelsNames(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		h.sentinels[2].SetMaster("m", h.b.Addr())
		votesAs(t, n, h.a)
		require.Equal(t, command.Granted, acquiringUnder("A", "k").outcome(t, n))
		require.Contains(t, h.a.Keys(), "k")
		require.Equal(t, 2, n.Stats().Sentinels)
		require.Zero(t, n.Stats().Switches)
		require.Zero(t, h.b.Connections())
	})
}

// docs/dev/rules.md rule 29: S is part of the marker, and every quarantine is longer by S.
func TestAQuarantineBehindSentinelsLastsLongerByWhatTheirWordCounts(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		requireQuarantined(t, acquiringUnder("A", "k").on(n).reply(t), guardTTL+extraQuarantine)
		text, _ := h.a.Get(guard.Key)
		m, err := guard.ParseMarker(text)
		require.NoError(t, err)
		require.Equal(t, extraQuarantine, m.MaxAge)
		time.Sleep(guardTTL + extraQuarantine - time.Second)
		requireQuarantined(t, acquiringUnder("A", "k").on(n).reply(t), time.Second)
		time.Sleep(time.Second + 2*time.Millisecond)
		synctest.Wait()
		require.Equal(t, command.Granted, acquiringUnder("A", "k").outcome(t, n))
	})
}

// docs/dev/hazards.md H102: the client, the old master and one Sentinel are on one side of a
// partition. The answers of the other two Sentinels are lost.
func TestBehindAPartitionTheOldMasterStopsVoting(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		time.Sleep(10 * time.Second) // whatever phase the queries are in
		h.sentinels[1].Freeze()
		h.sentinels[2].Freeze()
		cut := n.cfg.Clock.Now()
		for n.cfg.Clock.Now().Sub(cut) < counts4900-extraQuarantine/pollsPerMaxAge-time.Millisecond {
			require.Equal(t, command.Granted, pingingUnder().outcome(t, n))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(cut.Add(counts4900).Sub(n.cfg.Clock.Now()))
		h.a.ForgetLog()
		for _, unsafe := range []bool{true, false} { // WithUnsafeNodes makes no exception
			except(n, unsafe)
			for _, c := range []*call{
				acquiringUnder("A", "k"), extendingUnder("A", "k"), inspectingUnder("k"), pingingUnder(),
				under("A", func(r *command.Request, t *command.LockArgs) { t.SetCounters(false); command.NewConfirm(r, t, 7) }, "k"),
				under("A", func(r *command.Request, t *command.LockArgs) { command.NewRepair(r, t, time.Second, guardTTL, 0) }, "k"),
			} {
				requireUnfit(t, c.on(n).reply(t), "n1 follows 3 Sentinels, of which 2 must name one master as m within 5s",
					"s1:6379 named a:6379", "s2:6379")
			}
		}
		time.Sleep(time.Minute)
		require.Empty(t, quiet(h.a), "nothing was sent, not even the guard's question")
		require.Equal(t, 1, n.Stats().Sentinels)

		h.sentinels[1].Unfreeze()
		time.Sleep(time.Second)
		require.Equal(t, command.Granted, pingingUnder().outcome(t, n), "it never lost its locks")
	})
}

// Undos are sent to the connected server, because the old master may become the master again.
func TestAnUndoIsSentWhateverTheSentinelsSay(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		require.Equal(t, command.Granted, holdingUnder("A", "k").outcome(t, n))
		for _, s := range h.sentinels {
			s.Stop()
		}
		time.Sleep(extraQuarantine)
		requireUnfit(t, extendingUnder("A", "k").on(n).reply(t), "cannot be queried")
		require.Equal(t, command.Granted, releasing("A", "k").outcome(t, n))
		require.NotContains(t, h.a.Keys(), "k")
	})
}

func TestAnAnswerThatComesWhenItsMasterIsNotNamedAnyMoreIsNoVote(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		for _, s := range h.sentinels {
			s.Freeze()
		}
		time.Sleep(3 * time.Second)
		h.a.SetDelay(3 * time.Second)
		grant, release := holdingUnder("A", "k").on(n), releasing("A", "other").on(n)
		r := grant.reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.ErrorContains(t, r.Err, "follows 3 Sentinels")
		require.Contains(t, h.a.Keys(), "k", "it was granted")
		require.Equal(t, command.Refused, release.reply(t).Outcome, "no vote, and so an answer like any")
	})
}

func TestANodeFollowsItsSentinelsToAnotherMasterAtOnce(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		h.promote(1)
		synctest.Wait()
		require.Equal(t, command.Granted, pingingUnder().outcome(t, n), "one is no majority")
		h.promote(2)
		synctest.Wait()
		require.Zero(t, h.a.Connections(), "the announcement was heard")
		require.Equal(t, int64(1), n.Stats().Switches)
		requireQuarantined(t, acquiringUnder("B", "k").on(n).reply(t), guardTTL+extraQuarantine)
		require.NotContains(t, h.a.Keys(), "k")
	})
}

func TestWithoutAnAnnouncementItIsFollowedByAQuestion(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		for _, s := range h.sentinels {
			s.SetMaster("m", h.b.Addr())
		}
		time.Sleep(extraQuarantine / pollsPerMaxAge)
		synctest.Wait()
		require.Zero(t, h.a.Connections())
		require.NotZero(t, h.b.Connections())
	})
}

// A majority counts all configured Sentinels, not only those that answer.
func TestTwoOfFiveSentinelsAreNoMajority(t *testing.T) {
	behindSentinels(t, func(c *Config) {
		c.Sentinels.Addresses = append(c.Sentinels.Addresses, "s4:6379", "s5:6379")
	}, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		h.sentinels[2].Stop()
		time.Sleep(extraQuarantine)
		requireUnfit(t, pingingUnder().on(n).reply(t), "of which 3 must name", "s4:6379 cannot be queried")
	})
}

func TestTheSentinelsHaveAPasswordOfTheirOwn(t *testing.T) {
	behindSentinels(t, func(c *Config) {
		c.Password = "masters"
		c.Sentinels.Username, c.Sentinels.Password = "watcher", "theirs"
	}, func(t *testing.T, h *group, n *Node) {
		h.a.RequireAuth("default", "masters")
		for _, s := range h.sentinels {
			s.RequireAuth("watcher", "theirs")
			for _, c := range s.Clients() {
				c.Drop()
			}
		}
		for _, c := range h.a.Clients() {
			c.Drop()
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, n.Stats().Connected)
		require.Equal(t, 3, n.Stats().Sentinels)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", n.cfg, n.cfg, *n.cfg.Sentinels), "theirs")
	})
}

func TestANodeSaysWhatItsSentinelsSaid(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		h.sentinels[1].SetMaster("m", "")
		h.sentinels[2].Stop()
		time.Sleep(10 * time.Second)
		r := acquiringUnder("A", "k").on(n).reply(t)
		requireUnfit(t, r, "s1:6379 named a:6379; s2:6379 does not know the master; s3:6379 cannot be queried (pool: no connection: ")
		require.Equal(t, 1, strings.Count(r.Err.Error(), "s3:6379 cannot"))
	})
}

func TestANodeWithoutItsSentinelsFailsAtOnceAndConnectsWhenTheyAreThere(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		for _, s := range h.sentinels {
			s.Stop()
		}
		h.a.Stop()
		time.Sleep(time.Minute)
		began := n.cfg.Clock.Now()
		requireUnfit(t, acquiringUnder("A", "k").on(n).reply(t), "follows 3 Sentinels")
		require.Zero(t, n.cfg.Clock.Now().Sub(began))
		require.NoError(t, h.a.Restart(false))
		for _, s := range h.sentinels[1:] {
			require.NoError(t, s.Restart(false))
		}
		time.Sleep(time.Second)
		votesAs(t, n, h.a)
	})
}

func TestTheFirstCommandWaitsForTheSentinelsAndTheDial(t *testing.T) {
	behindSentinels(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(100 * time.Millisecond)
			return dial(ctx, network, address)
		}
	}, func(t *testing.T, _ *group, n *Node) {
		requireQuarantined(t, acquiringUnder("A", "k").on(n).reply(t), guardTTL+extraQuarantine)
	})
}

func TestASubscriptionFollowsToo(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		l := &heard{}
		s := voterOf(n).Subscribe(l)
		defer s.Close()
		s.Add("c")
		synctest.Wait()
		require.Equal(t, 2, h.a.Connections())
		h.promote(3)
		time.Sleep(time.Second)
		require.Zero(t, h.a.Connections())
		require.Equal(t, 2, h.b.Connections())
	})
}

// heard is a listener that ignores everything.
type heard struct{}

func (*heard) Subscribed(string)      {}
func (*heard) Message(string, string) {}
func (*heard) Down(error)             {}

func TestAWrongListOfSentinelsIsRefused(t *testing.T) {
	good := func() Config { return Config{Sentinels: &Sentinels{Master: "m", Addresses: []string{"b:1", "a:1"}}} }
	for want, change := range map[string]func(c *Config){
		"Sentinels.Master's length is 0":                 func(c *Config) { c.Sentinels.Master = "" },
		"the number of Sentinels.Addresses is 0":         func(c *Config) { c.Sentinels.Addresses = nil },
		`Sentinels.Addresses is "c", must be host:port`:  func(c *Config) { c.Sentinels.Addresses[0] = "c" },
		"a Sentinel is listed twice":                     func(c *Config) { c.Sentinels.Addresses[0] = "a:1" },
		"Sentinels.MaxAge is 1ms, must be 100ms to 1m0s": func(c *Config) { c.Sentinels.MaxAge = time.Millisecond },
		"Sentinels.MaxAge is 150.001ms, must be whole":   func(c *Config) { c.Sentinels.MaxAge = 150001 * time.Microsecond },
		"empty with Sentinels":                           func(c *Config) { c.Address = "h:1" },
		"tcp with Sentinels":                             func(c *Config) { c.Network = "unix" },
		"a node is Proxied or follows Sentinels":         func(c *Config) { c.Proxied = true },
	} {
		c := good()
		change(&c)
		_, err := Open(c)
		require.ErrorContains(t, err, want)
	}
	c := good()
	require.Equal(t, "m@a:1/0", c.DefaultName())
	require.Equal(t, "redis+sentinel://b:1,a:1/m/0", c.String())
}

// Each answer takes 4 s, and the next query follows 1 s later. In every 5 s an answer counts from
// its arrival until 4.9 s after its query.
func TestASentinelsAnswerCountsFromBeforeItsQuery(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		for _, s := range h.sentinels {
			s.SetDelay(4 * time.Second)
		}
		time.Sleep(20 * time.Second)
		votes := 0
		for range 500 {
			if pingingUnder().outcome(t, n) == command.Granted {
				votes++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 90, votes, 10, "0.9 s of every 5 s")
	})
}

// One Sentinel announces without end. The others are queried about ten times a second.
func TestAFloodOfAnnouncementsIsNoFloodOfQuestions(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, _ *Node) {
		for _, s := range h.sentinels {
			s.ForgetLog()
		}
		for range 1000 { // 10 s
			h.sentinels[0].Failover("m", h.a.Addr())
			time.Sleep(10 * time.Millisecond)
		}
		asked := count(h.sentinels[1].Master, "SENTINEL")
		require.Less(t, asked, 2*10*50, "two commands a question")
		require.Greater(t, asked, 2*10)
	})
}

// After an outage a Sentinel that drops one connection would otherwise be asked again after the longest pause.
func TestAnAnswerEndsThePausesBetweenDialsOfASentinel(t *testing.T) {
	const longest = time.Minute
	behindSentinels(t, func(c *Config) { c.RedialMax = longest }, func(t *testing.T, h *group, _ *Node) {
		s := h.sentinels[0]
		s.Stop()
		time.Sleep(5 * longest)
		require.NoError(t, s.Restart(true))
		time.Sleep(longest)
		s.ForgetLog()
		for count(s.Master, "SENTINEL") == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		for _, c := range s.Clients() {
			c.Drop()
		}
		s.ForgetLog()
		time.Sleep(extraQuarantine/pollsPerMaxAge + 100*time.Millisecond) // the next question finds the connection closed
		require.Positive(t, count(s.Master, "SENTINEL"))
	})
}

// The node would otherwise keep the connection to a former master, and not vote.
func TestAMasterThatIsReplacedDuringItsDialIsNotKept(t *testing.T) {
	var slow atomic.Bool
	change := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return conn, err
		}
	}
	behindSentinels(t, change, func(t *testing.T, h *group, _ *Node) {
		slow.Store(true)
		only(t, h.a).Drop()
		time.Sleep(500 * time.Millisecond)
		h.promote(3)
		time.Sleep(5 * time.Second)
		require.Zero(t, h.a.Connections())
		require.Equal(t, 1, h.b.Connections())
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
		_, err := address(wrong, nil)
		require.ErrorIs(t, err, errNoAddress, "%q", wrong)
	}
	got, err := address([]any{"::1", "65535"}, nil)
	require.NoError(t, err)
	require.Equal(t, "[::1]:65535", got)
}

// A Sentinel that is down is dialled more and more rarely, as RedialMax and its jitter allow.
func TestADeadSentinelIsDialledSeldom(t *testing.T) {
	var dials atomic.Int64
	change := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address[0] == 's' {
				dials.Add(1)
			}
			return dial(ctx, network, address)
		}
	}
	behindSentinels(t, change, func(t *testing.T, h *group, _ *Node) {
		h.sentinels[0].Stop()
		time.Sleep(10 * time.Second) // the pause has grown
		dials.Store(0)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, dials.Load(), int64(2*60*4))
	})
}
