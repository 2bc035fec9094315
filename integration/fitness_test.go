package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// illness makes a server unfit to vote, and fit again.
type illness struct {
	fall, rise func(n *redistest.Node)
	words      string
}

func illnesses(t *testing.T) map[string]illness {
	t.Helper()
	// The master is not reachable, because only the role matters here, not the replicated data.
	replica := func(n *redistest.Node) { n.Do(t, "REPLICAOF", "127.0.0.1", "1") }
	master := func(n *redistest.Node) { n.Do(t, "REPLICAOF", "NO", "ONE") }
	return map[string]illness{
		"replica": {replica, master, " is a replica: "},
		"writable replica": {
			func(n *redistest.Node) { n.Do(t, "CONFIG", "SET", "replica-read-only", "no"); replica(n) },
			func(n *redistest.Node) { master(n); n.Do(t, "CONFIG", "SET", "replica-read-only", "yes") },
			" is a writable replica",
		},
		"eviction": {
			func(n *redistest.Node) {
				n.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
				n.Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
			},
			func(n *redistest.Node) { n.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction") },
			" deletes keys when its memory is full (volatile-lru",
		},
	}
}

// docs/dev/hazards.md H35, H43.
func TestAnUnfitServerIsRefusedWithTheReasonUntilItIsFixed(t *testing.T) {
	nodes := masters(t, 3)
	for what, ill := range illnesses(t) {
		for _, n := range nodes[:2] {
			ill.fall(n)
		}
		l, err := redlock.Open(redistest.URLs(nodes), redlock.WithNodeTimeout(busyTimeout))
		require.NoError(t, err)
		_, err = l.TryAcquire(t.Context(), "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, what)
		require.ErrorIs(t, err, redlock.ErrUnfit, what)
		for i, n := range nodes[:2] {
			require.ErrorContains(t, err, n.Addr()+"/0"+ill.words, what)
			assert.Equal(t, redlock.OutcomeFailed, votesOf(t, err)[i].Outcome)
		}
		redistest.NoKeys(t, nodes, patience)
		for _, n := range nodes[:2] {
			ill.rise(n)
		}
		allVote(t, l, nodes)
		closeLocker(t, l)
	}
}

// The fault occurs while connections are open. A read-only replica answers READONLY. A writable
// replica and a server that evicts keys answer nothing special, so only the health check every ten
// seconds detects them.
func TestAMasterThatBecomesUnfitUnderOpenConnectionsStopsVoting(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for what, ill := range illnesses(t) {
		for _, n := range nodes[:2] {
			ill.fall(n)
		}
		awaitFor(t, patience, what+": it is found out", func() bool {
			k, err := l.TryAcquire(t.Context(), "x", time.Minute)
			if err == nil {
				_ = k.Release(t.Context())
			}
			return errors.Is(err, redlock.ErrUnfit)
		})
		for _, n := range nodes[:2] {
			ill.rise(n)
		}
		allVote(t, l, nodes)
	}
}

// docs/dev/hazards.md H36.
func TestAClusterMemberAndASentinelAreRefusedInWords(t *testing.T) {
	nodes := masters(t, 1)
	nodes = append(nodes, redistest.Start(t, 1, "--cluster-enabled", "yes")...)
	nodes = append(nodes, redistest.StartSentinel(t))
	l := open(t, nodes, redlock.WithNodeTimeout(patience))
	_, err := l.TryAcquire(t.Context(), "x", time.Minute)
	require.ErrorIs(t, err, redlock.ErrUnfit)
	require.ErrorContains(t, err, nodes[1].Addr()+"/0 is a member of a Redis Cluster")
	require.ErrorContains(t, err, nodes[2].Addr()+"/0 is a Sentinel")
	r, err := doctor.Diagnose(t.Context(), l)
	require.NoError(t, err)
	require.True(t, r.Failed())
	assert.Empty(t, errorsOf(r.Nodes[0]))
	assert.Equal(t, []string{"cluster"}, errorsOf(r.Nodes[1]))
	assert.Equal(t, "sentinel", r.Nodes[2].Role)
	assert.Contains(t, errorsOf(r.Nodes[2]), "sentinel")
	redistest.NoKeys(t, nodes[:1], patience)
}

// docs/dev/hazards.md H34.
func TestOneServerUnderTwoNamesIsRefusedInWords(t *testing.T) {
	nodes := masters(t, 2)
	urls := []string{nodes[0].URL() + "?name=a", nodes[1].URL() + "?name=b"}
	urls = append(urls, strings.Replace(nodes[1].URL(), "127.0.0.1", "localhost", 1)+"?name=c")
	l, err := redlock.Open(urls, redlock.WithNodeTimeout(busyTimeout))
	require.NoError(t, err)
	defer closeLocker(t, l)
	released(t, acquired(t, l, "x", time.Minute))
	nodes[0].Kill(t)
	await(t, "there is no quorum", func() bool {
		_, err = l.TryAcquire(t.Context(), "x", time.Minute)
		return errors.Is(err, redlock.ErrUnfit)
	})
	assert.Regexp(t, `b and c are the same server|c and b are the same server`, err.Error())
	r, err := doctor.Diagnose(t.Context(), l)
	require.NoError(t, err)
	assert.Equal(t, "duplicate", r.Findings[0].Code)
	nodes[0].Restart(t)
	await(t, "the first one votes again", func() bool { return l.Healthy(t.Context()) == nil })
}

func TestADiagnosisOfRealServers(t *testing.T) {
	nodes := masters(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	r := examined(t, open(t, nodes, redlock.WithNodeTimeout(patience)))
	require.Empty(t, r.All())
	for i, n := range r.Nodes {
		assert.Equal(t, "master", n.Role)
		assert.Equal(t, "AOF, fsync always", n.Persistence)
		assert.Empty(t, n.MissingRights)
		assert.True(t, n.ClockRead)
		assert.Less(t, n.ClockOffset.Abs(), n.RoundTrip/2+time.Second, "both have the same clock")
		assert.NotZero(t, n.RoundTrip)
		assert.Equal(t, int64(0), nodes[i].Do(t, "DBSIZE"), "nothing was written")
	}
}

// errorsOf returns the codes of the findings that keep a node from voting.
func errorsOf(n doctor.Node) (codes []string) {
	for _, f := range n.Findings {
		if f.Grade == doctor.Error {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// allVote waits until a lock is on all nodes.
func allVote(t *testing.T, l *redlock.Locker, nodes []*redistest.Node) {
	t.Helper()
	await(t, "all vote", func() bool {
		k, err := l.TryAcquire(t.Context(), "x", time.Minute)
		if err != nil {
			return false
		}
		defer released(t, k)
		answered(t, l)
		held := 0
		for _, n := range nodes {
			held += len(n.Keys(t, "x"))
		}
		return held == len(nodes)
	})
	redistest.NoKeys(t, nodes, patience)
}
