package examine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
)

func TestAnExaminationOfAClusterIsOfAllItsMasters(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		all := examined(t, n, nil).Findings
		require.Equal(t, []string{"warning persistence", "warning persistence", "warning persistence", "note cluster"}, codes(all))
		require.Contains(t, all[1].Text, "n1 at c-2:6379 forgets locks")
		require.Equal(t, "n1 is a Redis Cluster of 3 masters, and one vote", all[3].Text)
		cl.Masters[0].Deny("CLUSTER", "ASKING")
		cl.Masters[1].Stop()
		cl.Masters[2].Deny("PING")
		cl.Masters[2].SetInfo("connected_slaves", "1")
		e := examined(t, n, nil)
		require.Equal(t, []string{
			"error rights", "warning rights", "warning persistence", "error unreachable", "warning rights", "warning persistence", "note cluster", "warning cluster",
		}, codes(e.Findings))
		require.Contains(t, e.Findings[0].Text, "ACL SETUSER … +cluster|slots")
		require.Equal(t, []string{"cluster|slots", "asking", "ping"}, e.MissingRights, "of all masters")
		require.Equal(t, 1, e.Replicas)
		for _, m := range cl.Masters {
			m.Stop()
		}
		_ = why(t, n, time.Second)
	})
}

// A user of a Cluster has no right to the marker, and each denial would be an entry in ACL LOG.
func TestAClustersMastersAreNotQueriedForTheMarker(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		examined(t, n, nil)
		for _, m := range cl.Masters {
			require.NotEmpty(t, m.Log())
			for _, e := range m.Log() {
				require.NotContains(t, e.Args, guard.Key)
			}
		}
	})
}

func TestClocksOfAClustersMastersThatDifferAreAWarning(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		clocks := func() (texts []string) {
			for _, f := range examined(t, n, nil).Findings {
				if f.Code == CodeClock {
					texts = append(texts, f.Text)
				}
			}
			return texts
		}
		cl.Masters[1].SetClock(-2 * time.Millisecond)
		require.Empty(t, clocks())
		cl.Masters[1].SetClock(2 * time.Millisecond)
		cl.Masters[0].SetDelay(4 * time.Millisecond)
		require.Empty(t, clocks(), "its clock is known to half of that")
		cl.Masters[2].SetClock(time.Second)
		texts := clocks()
		require.Len(t, texts, 1)
		require.Contains(t, texts[0], "n1 has masters whose clocks differ by 1s: an atomic slot migration")
	})
}

func TestWhoNamedAnAddressThatNothingListensAtIsSaid(t *testing.T) {
	announced := func(cl *fakeredis.Cluster) { cl.Announce(cl.Masters[2], unreached) }
	inCluster(t, announced, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		const named = "; its Cluster (c-1:6379) named this address: if clients can't reach it, set cluster-announce-ip and " +
			"cluster-announce-port on that server"
		require.Equal(t, "n1 at 192.0.2.1:7000 could not be examined: connection refused: no server listens there: start it"+named,
			examined(t, n, nil).Findings[0].Text)
		cl.Masters[1].Stop() // it is named by its own address, which the configuration does not have
		require.Contains(t, codes(examined(t, n, nil).Findings), "error unreachable")
		cl.Masters[0].Stop() // it is configured
		err := why(t, n, 5*time.Second)
		require.ErrorContains(t, err, named)
		require.NotContains(t, err.Error(), "named c-1:6379")
	})
}

func TestWhoNamedAnAddressThatDoesNotAnswerIsSaid(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		cl.Masters[2].Freeze()
		found := examined(t, n, func(q *Question) { q.Timeout = time.Second }).Findings
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Code == codeUnreachable })
		require.Contains(t, found[i].Text, "n1 at c-3:6379 could not be examined: no answer within 1s: ")
		require.Contains(t, found[i].Text, "its Cluster (c-1:6379) named c-3:6379: ")
	})
}

func TestASlotMapWithoutAHostOrAPortSaysWhatToSet(t *testing.T) {
	for address, want := range map[string]string{
		"?:7000": `the slot map names a master by the host "?": set cluster-announce-hostname`,
		"c-3:0":  "the slot map names a master by the port 0, ",
	} {
		announced := func(cl *fakeredis.Cluster) { cl.Announce(cl.Masters[2], address) }
		inCluster(t, announced, func(t *testing.T, _ *fakeredis.Cluster, n *pool.Node) {
			all := examined(t, n, nil).Findings
			require.Contains(t, all[len(all)-1].Text, "n1 has 5461 of 16384 slots unassigned: c-1:6379: "+want)
		})
	}
}
