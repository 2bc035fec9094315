package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/pool"
)

const noHost = named.NoHost

func TestAWrongConfigurationOfAClusterIsRefused(t *testing.T) {
	good := []string{"a:1"}
	for want, cfg := range map[string]pool.Config{
		"cluster.Config.Addresses is \"a\", must be host:port": {Kind: &Config{Addresses: []string{"a"}}},
		"Address is \"a:1\", must be empty with a Cluster":     {Kind: &Config{good}, Address: "a:1"},
		"a Cluster has only database 0":                        {Kind: &Config{good}, Database: 1},
		"a node is Proxied or a Cluster, not both":             {Kind: &Config{good}, Proxied: true},
		"Network is \"unix\", must be tcp":                     {Kind: &Config{good}, Network: "unix"},
		"the number of cluster.Config.Addresses is 65":         {Kind: &Config{make([]string, 65)}},
		"the number of cluster.Config.Addresses is 0":          {Kind: (*Config)(nil)},
	} {
		_, err := pool.Open(cfg)
		require.ErrorContains(t, err, want)
	}
}

// docs/dev/rules.md rule 30: this also holds for a Node that wraps ours.
func TestNothingIsSentToAClusterUnderTheGuard(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		nodetest.RequireUnfit(t, nodetest.AcquiringUnder("A", "foo").On(n).Reply(t), "a Redis Cluster cannot use the restart guard")
		nodetest.RequireUnfit(t, nodetest.PingingUnder().On(n).Reply(t))
		for _, m := range cl.Masters {
			require.Empty(t, nodetest.Quiet(m))
		}
	})
}

// Those who wait for a name subscribe at the master of its slot, so it counts them all.
func TestWaitersOfAClusterAreCounted(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, _ *fakeredis.Cluster, n *pool.Node) {
		release := func(own int) command.Others {
			announced := func(r *command.Request) {
				command.NewAnnouncingRelease(r, nodetest.Terms("A", []string{"foo"}), own, 0)
			}
			require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
			r := nodetest.NewCall(announced).On(n).Reply(t)
			require.Equal(t, command.Granted, r.Outcome)
			return r.Others
		}
		require.Equal(t, command.NoOthers, release(0))
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		defer s.Close()
		s.Add(command.FreePrefix + "foo")
		require.Equal(t, "subscribed redlock:free:foo", <-heard)
		require.Equal(t, command.OthersWait, release(0))
		require.Equal(t, "redlock:free:foo: 0 1", <-heard)
		require.Equal(t, command.NoOthers, release(1))
	})
}

func TestAServerThatIsNoMasterOfAClusterDoesNotVoteForOne(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		m := cl.Owner("foo")
		m.SetInfo("redis_mode", "standalone")
		time.Sleep(10*time.Second + time.Second)
		nodetest.RequireUnfit(t, nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t), "n1 at "+m.Addr()+" is no longer a member of a Redis Cluster")
		m.SetInfo("redis_mode", "cluster")
		m.SetInfo("maxmemory", "1000")
		m.SetInfo("maxmemory_policy", "volatile-lru")
		time.Sleep(10*time.Second + time.Second)
		nodetest.RequireUnfit(t, nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t), "n1 at "+m.Addr()+" deletes keys when its memory is full")
		require.ErrorIs(t, nodetest.Pinging().On(n).Reply(t).Err, command.ErrUnfit)
		m.SetInfo("maxmemory", "")
		time.Sleep(time.Second + time.Millisecond)
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
	})
}

// docs/dev/hazards.md H34.
func TestOneClusterUnderTwoNamesDoesNotVoteTwice(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		twin := openedCluster(t, cl, func(c *pool.Config) { c.Name = "n2" })
		defer twin.Close()
		servers := command.NewServers()
		nodetest.Join(n, command.Membership{Servers: servers})
		nodetest.Join(twin, command.Membership{Servers: servers})
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		nodetest.RequireUnfit(t, nodetest.Acquiring("B", nodetest.LongTTL, "foo").On(twin).Reply(t), "n1 and n2 are the same server")
	})
}

func TestTheAddressesOfAMapAndOfMOVEDAreRead(t *testing.T) {
	node := func(host any, port int64) []any { return []any{host, port, []byte("id")} }
	list := []any{
		[]any{int64(0), int64(9), node([]byte("a"), 1), node([]byte("replica"), 2)},
		[]any{int64(10), int64(10), node([]byte(""), 2)},
		[]any{int64(11), int64(11), node(nil, 3)},
		[]any{int64(12), int64(12), node([]byte("?"), 4)},
		[]any{int64(13), int64(16383), node([]byte("::1"), 5)},
	}
	all, err := parseSlots(list, nil, "me:7")
	require.NoError(t, err)
	require.Equal(t, []slotRange{{0, 9, "a:1"}, {10, 10, "me:2"}, {11, 11, "me:3"}, {12, 12, noHost}, {13, 16383, "[::1]:5"}}, all)
	for _, wrong := range []any{
		[]any{},
		[]any{int64(1)},
		[]any{[]any{int64(0), int64(16384), node([]byte("a"), 1)}},
		[]any{[]any{int64(-1), int64(1), node([]byte("a"), 1)}},
		[]any{[]any{int64(0), int64(1), []any{}}},
		[]any{[]any{int64(0), int64(1), node([]byte("?"), 1)}},
		[]any{[]any{int64(1), int64(0), node([]byte("a"), 1)}},
		[]any{[]any{int64(0), int64(16383), node([]byte("a"), 1)}, []any{int64(0), int64(0), node([]byte("b"), 1)}},
		[]any{[]any{int64(0), int64(100), node([]byte("a"), 1)}, []any{int64(50), int64(200), node([]byte("b"), 1)}},
		[]any{[]any{int64(0), int64(1), node([]byte("a\x1b[2J"), 1)}},
		[]any{[]any{int64(0), int64(1), node([]byte(strings.Repeat("a", 256)), 1)}},
		[]any{[]any{int64(0), int64(1), node([]byte("a"), 65536)}},
		"OK", nil,
	} {
		_, err := parseSlots(wrong, nil, "me:7")
		require.Error(t, err, "%v", wrong)
	}
	for text, want := range map[string]string{
		"MOVED 5 ?:1": "", "MOVED 5 a:1": "a:1", "ASK 5 a:1": "a:1", "MOVED 5 :1": "me:1", "MOVED 5 ::1:7": "[::1]:7", "MOVED 5 [::1]:7": "[::1]:7",
		"MOVED 16384 a:1": "", "MOVED -1 a:1": "", "MOVED x a:1": "", "MOVED 5 a": "", "MOVED 5 a:x": "", "MOVED 5": "", "ERR MOVED 5 a:1": "", "": "",
	} {
		to := parseRedirection(text, "me:7")
		require.Equal(t, want, to.address, text)
		require.Equal(t, text == "ASK 5 a:1", to.asking, text)
	}
}

// unreached is an address of the documentation range, where nothing listens.
const unreached = "192.0.2.1:7000"

// refusing dials as dial, but for unreached.
func refusing(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == unreached {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return dial(ctx, network, address)
	}
}

// withAnnounced runs a test on a node of a Cluster that announces an address for its third master.
func withAnnounced(t *testing.T, address string, f func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		cl.Announce(cl.Masters[2], address)
		n := openedCluster(t, cl, func(c *pool.Config) { c.Dial = refusing(cl.Dial) })
		defer n.Close()
		synctest.Wait()
		f(t, cl, n)
	})
}

// keyOn returns a key whose slot the master has.
func keyOn(cl *fakeredis.Cluster, m *fakeredis.Master) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); cl.Owner(key) == m {
			return key
		}
	}
}

func TestWhoNamedAnAddressThatNothingListensAtIsSaid(t *testing.T) {
	withAnnounced(t, unreached, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		const named = "; its Cluster (c-1:6379) named this address: if clients can't reach it, set cluster-announce-ip and " +
			"cluster-announce-port on that server"
		r := nodetest.Acquiring("A", nodetest.LongTTL, keyOn(cl, cl.Masters[2])).On(n).Reply(t)
		require.ErrorContains(t, r.Err, "connection refused"+named)
	})
}

// MOVED names an address as well, and the server there may fail in the handshake only.
func TestWhoNamedAnAddressThatDoesNotAnswerIsSaid(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		to := cl.Add()
		to.Freeze()
		key := keyOn(cl, cl.Masters[1])
		cl.MoveSlot(key, to)
		c := nodetest.Acquiring("A", nodetest.LongTTL, key).On(n)
		r := c.Reply(t)
		require.ErrorContains(t, r.Err, "handshake took longer than the dial timeout of 5s; its Cluster (c-")
		require.ErrorContains(t, r.Err, ":6379) named c-4:6379: ")
	})
}

func TestASlotMapWithoutAHostOrAPortSaysWhatToSet(t *testing.T) {
	for address, want := range map[string]string{
		"?:7000": `the slot map names a master by the host "?": set cluster-announce-hostname`,
		"c-3:0":  "the slot map names a master by the port 0, ",
	} {
		withAnnounced(t, address, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
			require.ErrorContains(t, nodetest.Pinging().On(n).Reply(t).Err, want)
			if address == "?:7000" {
				r := nodetest.Acquiring("A", nodetest.LongTTL, keyOn(cl, cl.Masters[2])).On(n).Reply(t)
				require.ErrorContains(t, r.Err, "MOVED")
				require.ErrorContains(t, r.Err, "names no host: set cluster-announce-hostname")
				require.NotErrorIs(t, r.Err, command.ErrTimeout)
			}
		})
	}
	_, err := parseSlots([]any{[]any{int64(0), int64(16383), []any{[]byte("?"), int64(7000), []byte("id")}}}, nil, "me:7")
	require.EqualError(t, err, `the slot map names a master by the host "?": set cluster-announce-hostname on that server, or `+
		"cluster-preferred-endpoint-type ip")
	_, err = parseSlots([]any{}, nil, "me:7")
	require.ErrorIs(t, err, errNoMap)
}

func TestAClusterVotesIfAllItsMastersDo(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		require.NoError(t, command.FromPool(n).WhyNotVoting())
		for _, m := range cl.Masters {
			m.SetInfo("role", "slave")
			time.Sleep(time.Minute)
			require.Error(t, command.FromPool(n).WhyNotVoting(), m.Name())
			m.SetInfo("role", "")
			time.Sleep(time.Minute)
			require.NoError(t, command.FromPool(n).WhyNotVoting(), m.Name())
		}
		require.NoError(t, n.Close())
		require.ErrorIs(t, command.FromPool(n).WhyNotVoting(), pool.ErrClosed)
	})
}

// A ping says the same, and names in these slots get no vote.
func TestAClusterWithUnassignedSlotsDoesNotVote(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		cl.TakeSlot(cl.Owner("foo"), nil, false)
		time.Sleep(refreshEvery + time.Second)
		err := command.FromPool(n).WhyNotVoting()
		require.ErrorIs(t, err, command.ErrUnfit)
		require.ErrorContains(t, err, "slots are unassigned: bring their masters back")
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, keyOn(cl, nodetest.Others(cl, "foo")[0])).Outcome(t, n))
	})
}

func TestAClusterWithoutASlotMapDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		for _, m := range cl.Masters {
			m.Stop()
		}
		n := openedCluster(t, cl, nil)
		defer n.Close()
		time.Sleep(time.Minute)
		err := command.FromPool(n).WhyNotVoting()
		require.Error(t, err)
		require.NotErrorIs(t, err, server.ErrConnecting)
	})
}

func TestAnAddressThatAMapNamesIsPrintable(t *testing.T) {
	_, err := parseSlots([]any{[]any{int64(0), int64(1), []any{[]byte("h\x1b[31m"), int64(7)}}}, nil, "me:7")
	require.ErrorIs(t, err, named.ErrNoAddress)
}
