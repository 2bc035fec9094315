package integration

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// For nodes behind Sentinels. A failover takes maxTTL and MaxAge. A busy machine may stop for seconds: an
// extension then has two thirds of the TTL, and a node counts as long as its Sentinels' last answers do.
const (
	sentinelTTL     = 12 * time.Second // the maxTTL, and the TTL of the locks
	sentinelTimeout = sentinelTTL / 3
	sentinelMaxAge  = 4 * time.Second // longer than a failover takes
)

// mastersOf returns the masters of groups.
func mastersOf(groups []*redistest.Group) (all []*redistest.Node) {
	for _, g := range groups {
		all = append(all, g.Master)
	}
	return all
}

// side is what one client can reach.
type side struct {
	mu    sync.Mutex // guards what follows
	gone  []*redistest.Node
	conns map[net.Conn]*redistest.Node
}

// dialler dials the servers of a group.
func (s *side) dialler(g *redistest.Group) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to := g.Node(address)
		for _, n := range g.Sentinels {
			if n.Addr() == address {
				to = n
			}
		}
		conn, err := g.Dial(ctx, network, address)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(s.gone, to):
			return nil, errors.Join(errCut, conn.Close())
		case s.conns == nil:
			s.conns = make(map[net.Conn]*redistest.Node)
		}
		s.conns[conn] = to
		return conn, nil
	}
}

// lose closes the connections to these servers, and prevents new ones.
func (s *side) lose(nodes ...*redistest.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = nodes
	for conn, to := range s.conns {
		if slices.Contains(nodes, to) {
			_ = conn.Close()
		}
	}
}

// startGroups starts groups of so many Sentinels each. They keep their masters.
func startGroups(t *testing.T, sentinels ...int) []*redistest.Group {
	t.Helper()
	groups, networks := make([]*redistest.Group, len(sentinels)), make([]*redistest.Network, len(sentinels))
	var wg sync.WaitGroup
	for i, n := range sentinels {
		wg.Go(func() { groups[i] = redistest.StartGroup(t, n) })
	}
	wg.Wait()
	for i, g := range groups {
		if g == nil {
			t.FailNow()
		}
		networks[i] = g.Network
	}
	redistest.Late(t, networks...)
	return groups
}

// behind opens a guarded Locker over groups.
func behind(t *testing.T, s *side, groups []*redistest.Group, opts ...redlock.Option) (*redlock.Locker, []*pool.Node) {
	t.Helper()
	var nodes []*pool.Node
	for i, g := range groups {
		cfg, err := pool.ParseURL(g.URL())
		require.NoError(t, err)
		cfg.Name, cfg.Dial = string(rune('a'+i)), s.dialler(g)
		cfg.Kind.(*sentinel.Config).MaxAge = sentinelMaxAge
		n, err := pool.Open(cfg)
		require.NoError(t, err)
		nodes = append(nodes, n)
	}
	l, err := redlock.New(nodes, append([]redlock.Option{redlock.WithRestartGuard(sentinelTTL), redlock.WithNodeTimeout(sentinelTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l, nodes
}

// failoverWithin bounds how long an acquisition may take after a failover, on a slow machine.
const failoverWithin = 2 * time.Minute

func mustAcquire(t *testing.T, l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failoverWithin)
	defer cancel()
	k, err := l.Acquire(ctx, name, sentinelTTL, opts...)
	require.NoError(t, err)
	return k
}

func TestANodeBehindSentinelsFollowsAFailoverByHand(t *testing.T) {
	g := redistest.StartGroup(t, 3)
	log := &tenures{}
	l, nodes := behind(t, &side{}, []*redistest.Group{g}, log.watch("a"))
	mustAdmit(t, l, []*redistest.Node{g.Master})
	require.NoError(t, mustAcquire(t, l, "x").Release(t.Context()))

	var probes sync.WaitGroup // the client may follow the failover before the test does
	over := make(chan struct{})
	probes.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if k, err := l.TryAcquire(t.Context(), "probe", sentinelTTL); err == nil {
				_ = k.Release(t.Context()) // the node may have been replaced
			}
		}
	})
	g.FailOver(t)
	// The Sentinels may tell the client later, and until then a lock is one of the old master.
	await(t, "the client follows", func() bool { _, quarantined, _ := log.state(); return !quarantined.IsZero() })
	k := mustAcquire(t, l, "x", redlock.WithAutoExtend())
	close(over)
	probes.Wait()
	await(t, "the trace has its vote", func() bool { _, _, back := log.state(); return !back.IsZero() })
	_, quarantined, back := log.state()
	assert.GreaterOrEqual(t, back.Sub(quarantined), sentinelTTL+sentinelMaxAge-quarantineSeen, "a promoted replica is quarantined for maxTTL, plus MaxAge from its first contact")
	// The undo of a probe that got no answer in time may follow.
	await(t, "the replica has the key of the lock and no other", func() bool { return slices.Equal([]string{"x"}, lockKeys(t, g.Replica)) })
	assert.Equal(t, int64(1), nodes[0].Stats().Switches)
	require.NoError(t, k.Release(t.Context()))

	await(t, "the diagnosis finds no error", func() bool {
		report, err := doctor.Diagnose(t.Context(), l)
		require.NoError(t, err)
		return !report.Failed()
	})
}

// docs/dev/hazards.md H102. The old master and one Sentinel are cut off from the others together with a
// client, which extends and acquires the lock as long as it can. Another client can reach all
// servers, and waits for the lock.
func TestASplitBrainNeverHasTwoHolders(t *testing.T) {
	g := redistest.StartDivisibleGroup(t, 3)
	far := &side{}
	a, _ := behind(t, far, []*redistest.Group{g})
	b, nodes := behind(t, &side{}, []*redistest.Group{g})
	mustAdmit(t, b, []*redistest.Node{g.Master})
	require.NoError(t, mustAcquire(t, b, "x").Release(t.Context()))
	held := mustAcquire(t, a, "x", redlock.WithAutoExtend()) // it may take long to cut servers off

	g.CutOff(t, g.Master, g.Sentinels[0])
	far.lose(g.Sentinels[1], g.Sentinels[2], g.Replica)
	g.ReplaceMaster(t)
	switched := make(chan struct{})
	go func() {
		defer close(switched)
		g.AwaitSwitch(t, g.Master, g.Sentinels[1:]...)
	}()
	var refused error
	var won <-chan waiting
	var end time.Time // of the hold of a
	for held.Remaining() > 0 {
		select {
		case <-switched: // b begins as early as possible
			switched = nil
			won = acquireGuarded(t.Context(), b, "x")
		default:
		}
		if err := held.Extend(t.Context(), sentinelTTL); errors.Is(err, redlock.ErrUnfit) {
			refused = err
		}
		end = time.Now().Add(held.Remaining())
		time.Sleep(5 * time.Millisecond)
	}
	require.ErrorContains(t, refused, "follows 3 Sentinels, of which 2 must name one master as watched within 4s")
	_, err := a.TryAcquire(t.Context(), "x", sentinelTTL)
	require.ErrorIs(t, err, redlock.ErrUnfit)
	if won == nil {
		t.Log("the failover took longer than MaxAge")
		<-switched
		won = acquireGuarded(t.Context(), b, "x")
	}
	for _, m := range []*redistest.Node{g.Master, g.Replica} {
		info, err := redis.String(m.Do(t, "INFO", "replication"), nil)
		require.NoError(t, err)
		require.Contains(t, info, "role:master", "the old master must still be a master")
	}
	w := <-won
	require.NoError(t, w.err)
	require.False(t, w.at.Before(end), "two clients hold the lock")
	if err := w.lock.Release(t.Context()); err != nil {
		require.ErrorIs(t, err, redlock.ErrLost) // b got it from the old master, and follows the new one by now
	}

	awaitFor(t, failoverWithin, "b follows the new master", func() bool { return nodes[0].Stats().Switches > 0 })
	k := mustAcquire(t, b, "x")
	assert.Empty(t, lockKeys(t, g.Master))
	assert.Equal(t, []string{"x"}, lockKeys(t, g.Replica))
	require.NoError(t, k.Release(t.Context()))
}

func TestThreeGroupsOfSentinelsFormAQuorum(t *testing.T) {
	groups := startGroups(t, 1, 1, 1)
	l, nodes := behind(t, &side{}, groups, redlock.WithFencing(), redlock.WithRepair())
	mustAdmit(t, l, mastersOf(groups))
	k := acquired(t, l, "x", sentinelTTL, redlock.WithAutoExtend())
	stands := func(group int) func() bool {
		return func() bool {
			require.NoError(t, context.Cause(k.Context()), "a majority of the groups still holds the lock")
			return nodes[group].Stats().Switches == 1 && len(lockKeys(t, groups[group].Replica)) == 1
		}
	}
	fence := k.Fence()
	groups[0].FailOver(t)
	awaitFor(t, failoverWithin, "the lock stands on the promoted replica", stands(0))
	awaitFor(t, failoverWithin, "the promoted replica votes, so that the second group is not needed", func() bool {
		report, err := doctor.Diagnose(t.Context(), l)
		require.NoError(t, err)
		return report.Nodes[0].Guard == "ok"
	})
	groups[1].Master.Kill(t)
	groups[1].ReplaceMaster(t)
	groups[1].AwaitSwitch(t, groups[1].Master, groups[1].Sentinels...)
	groups[1].KeepMaster(t)
	awaitFor(t, failoverWithin, "the lock stands on the second promoted replica", stands(1))
	confirmedBehind(t, k) // a majority of the groups held it all the time
	require.NoError(t, k.Release(t.Context()))
	k = mustAcquire(t, l, "x")
	assert.Greater(t, k.Fence(), fence)
	require.NoError(t, k.Release(t.Context()))
	assert.Equal(t, []int64{1, 1, 0}, []int64{nodes[0].Stats().Switches, nodes[1].Stats().Switches, nodes[2].Stats().Switches})
}

// confirmedBehind is confirmed behind Sentinels. On a machine that stops their answers may be too old, or
// those of the nodes too late.
func confirmedBehind(t *testing.T, k *redlock.Lock) {
	t.Helper()
	await(t, "a majority confirms the lock", func() bool {
		began := time.Now()
		err := k.Check(t.Context())
		require.NoError(t, context.Cause(k.Context()))
		if err != nil && !errors.Is(err, redlock.ErrUnfit) {
			require.GreaterOrEqual(t, time.Since(began), sentinelTimeout, "%v", err)
		}
		return err == nil
	})
}

// acquireGuarded is acquireLater with a TTL that the guard allows.
func acquireGuarded(ctx context.Context, l *redlock.Locker, name string) <-chan waiting {
	done := make(chan waiting, 1)
	go func() {
		k, err := l.Acquire(ctx, name, sentinelTTL)
		done <- waiting{k, err, time.Now()}
	}()
	return done
}

// lockKeys returns the lock keys of a server.
func lockKeys(t *testing.T, n *redistest.Node) []string {
	t.Helper()
	return slices.DeleteFunc(n.Keys(t, "*"), func(k string) bool { return strings.HasPrefix(k, "redlock:") })
}
