package cluster

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// mapOf is the answer to CLUSTER SLOTS with so many masters, each with one slot.
func mapOf(masters int, host string) (list []any) {
	for i := range masters {
		list = append(list, []any{int64(i), int64(i), []any{fmt.Appendf(nil, "%s%d", host, i), int64(1), []byte("id")}})
	}
	return list
}

func TestAMapOfTooManyMastersIsRefused(t *testing.T) {
	all, err := parseSlots(mapOf(maxShards, "h"), nil, "me:7")
	require.NoError(t, err)
	require.Len(t, all, maxShards)
	_, err = parseSlots(mapOf(maxShards+1, "h"), nil, "me:7")
	require.EqualError(t, err, "slot map with more than 1024 masters")
}

// Each map may name other masters, and each MOVED one more.
func TestAClusterHasABoundedNumberOfMembersWhateverItSays(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, _ *fakeredis.Cluster, n *pool.Node) {
		for round := range 3 {
			all, err := parseSlots(mapOf(maxShards, fmt.Sprintf("h%d-", round)), nil, "me:7")
			require.NoError(t, err)
			clusterOf(n).apply(all, "")
			synctest.Wait()
			require.Equal(t, maxShards, memberCount(n))
		}
		require.NoError(t, clusterOf(n).refresh.refresh(t.Context()), "it is found again")
		synctest.Wait()
		require.Equal(t, 3, n.Stats().Masters)
	})
}

func TestACommandIsNotSentOnToOneMemberTooMany(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		cl.Owner("x").Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			return fmt.Sprintf("MOVED %d elsewhere:1", command.Slot("x")), cmd == "SET"
		})
		all, err := parseSlots(mapOf(maxShards-3, "h"), nil, "me:7")
		require.NoError(t, err)
		clusterOf(n).mu.Lock()
		for _, r := range all {
			clusterOf(n).slots.asked(r.address, "", nodetest.Now(n))
			clusterOf(n).shardOfLocked(r.address)
		}
		clusterOf(n).mu.Unlock()
		r := nodetest.Acquiring("A", nodetest.LongTTL, "x").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "MOVED")
		require.Equal(t, maxShards, memberCount(n))
	})
}

func memberCount(n *pool.Node) int {
	clusterOf(n).mu.Lock()
	defer clusterOf(n).mu.Unlock()
	return len(clusterOf(n).shards)
}

// A map named a thousand dead masters. The configured masters must still be queried for the map,
// and the error must not have a thousand lines.
func TestFewMastersAreQueriedForTheMapAndFewErrorsReported(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		all, err := parseSlots(mapOf(maxShards, "h"), nil, "me:7")
		require.NoError(t, err)
		clusterOf(n).apply(all, "")
		synctest.Wait()
		asked := clusterOf(n).toQuery()
		require.Len(t, asked, maxCandidates+1)
		require.Contains(t, asked, cl.Masters[0].Addr())
		cl.Masters[0].Stop()
		err = clusterOf(n).refresh.refresh(t.Context())
		require.ErrorContains(t, err, fmt.Sprintf("and %d more", maxCandidates+1-5))
		require.Less(t, len(err.Error()), 2<<10)
		require.False(t, errors.Is(err, errNoMap))
	})
}

// clusterOf returns the Cluster that a node is.
func clusterOf(n *pool.Node) *clusterNode {
	_, shape := node.Of(n)
	return shape.(*clusterNode)
}
