package redistest

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Watched is the name by which the Sentinels of a [Group] know its master.
const Watched = "watched"

// Group is a master, its replica, and the Sentinels that watch them.
type Group struct {
	*Network
	Master, Replica *Node // at the start
	Sentinels       []*Node
}

// groupWithin bounds how long the servers take to find each other.
const groupWithin = time.Minute

// StartGroup starts a group with the given number of Sentinels. It returns when the replica has its
// copy, and all Sentinels know the replica and each other. They consider the master dead only after ten
// minutes of silence, so that a busy machine causes no failover, until [Group.ReplaceMaster].
func StartGroup(t testing.TB, sentinels int, args ...string) *Group {
	t.Helper()
	return startGroup(t, sentinels, launch{args: args})
}

// StartDivisibleGroup is [StartGroup] for tests that call [Network.CutOff].
func StartDivisibleGroup(t testing.TB, sentinels int, args ...string) *Group {
	t.Helper()
	return startGroup(t, sentinels, launch{args: args, onNetwork: true})
}

func startGroup(t testing.TB, sentinels int, l launch) *Group {
	t.Helper()
	requireEngine(t)
	g := &Group{Network: newNetwork(t, onMachine() && !l.onNetwork), Sentinels: make([]*Node, sentinels)}
	var wg sync.WaitGroup
	wg.Go(func() {
		servers := startAll(t, 2, l)
		g.Master, g.Replica = servers[0], servers[1]
	})
	for i := range g.Sentinels {
		wg.Go(func() { g.Sentinels[i] = startSentinel(t, l.onNetwork) })
	}
	wg.Wait()
	if t.Failed() || g.Master == nil {
		t.FailNow()
	}
	g.join(t, append([]*Node{g.Master, g.Replica}, g.Sentinels...)...)
	for _, s := range []*Node{g.Master, g.Replica} {
		s.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
	}
	g.Replica.Do(t, "REPLICAOF", g.at(g.Master)...)
	// A replica that is promoted before its first copy has no backlog. Redis then changes its history
	// when the former master follows it, and the guard begins a second quarantine.
	await(t, "the replica has a copy", func() bool {
		return strings.Contains(text(g.Replica.Do(t, "INFO", "replication")), "master_link_status:up")
	})
	for _, s := range g.Sentinels {
		s.Do(t, "SENTINEL", redis.Args{"MONITOR", Watched}.AddFlat(g.at(g.Master)).Add(sentinels/2+1)...)
	}
	g.KeepMaster(t)
	for _, s := range g.Sentinels {
		await(t, "the Sentinels know all servers", func() bool {
			found, err := redis.StringMap(s.Do(t, "SENTINEL", "MASTER", Watched), nil)
			return err == nil && found["num-slaves"] == "1" && found["num-other-sentinels"] == strconv.Itoa(sentinels-1)
		})
	}
	return g
}

// URL returns a URL for pool.ParseURL. It needs the group's Dial.
func (g *Group) URL() string {
	var hosts []string
	for _, s := range g.Sentinels {
		hosts = append(hosts, s.Addr())
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + Watched
}

// Present returns the server that a Sentinel names as the master.
func (g *Group) Present(t testing.TB, s *Node) *Node {
	t.Helper()
	parts, err := redis.Strings(s.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", Watched), nil)
	if err != nil || len(parts) != 2 {
		t.Fatalf("redistest: a Sentinel names no master: %q, %v", parts, err)
	}
	return g.Node(net.JoinHostPort(parts[0], parts[1]))
}

// KeepMaster ends [Group.ReplaceMaster]: the Sentinels consider a master dead only after ten minutes of
// silence. FailOver works meanwhile, and a busy machine does not end it early.
func (g *Group) KeepMaster(t testing.TB) {
	t.Helper()
	for _, s := range g.Sentinels {
		s.Do(t, "SENTINEL", "SET", Watched, "down-after-milliseconds", 600_000, "failover-timeout", 60_000)
	}
}

// ReplaceMaster has the Sentinels promote the replica when the master has been silent for a second, and
// repeat a failed election soon.
func (g *Group) ReplaceMaster(t testing.TB) {
	t.Helper()
	for _, s := range g.Sentinels {
		s.Do(t, "SENTINEL", "SET", Watched, "failover-timeout", 2000, "down-after-milliseconds", 1000)
	}
}

// FailOver has the Sentinels promote the replica. It returns when all the given Sentinels name
// another master than before.
func (g *Group) FailOver(t testing.TB) {
	t.Helper()
	before := g.Present(t, g.Sentinels[0])
	var asked time.Time
	awaitSwitch(t, func() bool {
		if time.Since(asked) > 20*time.Second { // a Sentinel that cannot promote the replica in time gives up in silence
			if _, err := g.Sentinels[0].Try("SENTINEL", "FAILOVER", Watched); err == nil { // NOGOODSLAVE, INPROG: not possible yet
				asked = time.Now()
			}
		}
		return g.Present(t, g.Sentinels[0]) != before
	})
	g.AwaitSwitch(t, before, g.Sentinels...)
}

// AwaitSwitch returns when all the given Sentinels name another master than before.
func (g *Group) AwaitSwitch(t testing.TB, before *Node, sentinels ...*Node) {
	t.Helper()
	for _, s := range sentinels {
		awaitSwitch(t, func() bool { return g.Present(t, s) != before })
	}
}

// awaitSwitch gives a failover time: a Sentinel whose timer is late by 2 s does nothing for 30 s, and a busy machine may
// stop it again meanwhile.
func awaitSwitch(t testing.TB, is func() bool) {
	t.Helper()
	Await(t, 5*time.Minute, 20*time.Millisecond, "the Sentinels name another master", is)
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	Await(t, groupWithin, 20*time.Millisecond, what, is)
}

// Await polls until is returns true, and fails the test if that is not the case within a time.
func Await(t testing.TB, within, every time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !is(); time.Sleep(every) {
		if time.Now().After(deadline) {
			t.Fatalf("redistest: timeout after %v: %s", within, what)
		}
	}
}

func text(reply any) string {
	s, _ := redis.String(reply, nil)
	return s
}
