package examine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/pool"
)

func TestAnExaminationReportsTheSentinelsAnswers(t *testing.T) {
	of := func(t *testing.T, n *pool.Node, grades ...Grade) (texts []string) {
		for _, f := range examined(t, n, nil).Findings {
			if f.Code == codeSentinels && slices.Contains(grades, f.Grade) {
				texts = append(texts, f.Text)
			}
		}
		return texts
	}
	behindSentinels(t, 3, func(t *testing.T, s *sentinels, n *pool.Node) {
		warnings := func() []string { return of(t, n, Warning) }
		require.Equal(t, []string{"n1 is a:6379 according to 3 of its 3 Sentinels; it does not vote while fewer than 2 agree"}, of(t, n, Note))
		require.Empty(t, warnings())

		s.all[0].SetMaster("m", s.b.Addr())
		time.Sleep(maxAge)
		require.Equal(t, []string{"n1 follows the Sentinel s1:6379, which names b:6379 and not a:6379"}, warnings())
		s.all[0].SetMaster("m", "")
		time.Sleep(maxAge)
		require.Equal(t, []string{"n1 follows the Sentinel s1:6379, which knows of no such master: add it there with SENTINEL MONITOR"}, warnings())
		s.all[0].Stop()
		time.Sleep(maxAge)
		require.Len(t, warnings(), 1)
		require.Contains(t, warnings()[0], "n1 follows the Sentinel s1:6379, which can't be asked (")
	})
	behindSentinels(t, 2, func(t *testing.T, _ *sentinels, n *pool.Node) {
		all := of(t, n, Note, Warning)
		require.Contains(t, all[1], "n1 follows 2 Sentinels, and one of them knows of 3 in all")
		require.Contains(t, all[2], "n1 follows 2 Sentinels, which tolerate no more failures than 1")
	})
}

func TestANodesNameIsNoFormat(t *testing.T) {
	require.Equal(t, "50%d is m according to 1 of its 1 Sentinels; it does not vote while fewer than 1 agree",
		sentinelFindings("50%d", "m", []node.SentinelAnswer{{Master: "m"}})[0].Text)
	require.Equal(t, "50%d is a Redis Cluster of 0 masters, and one vote", topologyFindings("50%d", node.Servers{}, 0)[0].Text)
}

func TestWhichSentinelsNamedAMasterThatCantBeExaminedIsSaid(t *testing.T) {
	behindSentinels(t, 3, func(t *testing.T, s *sentinels, n *pool.Node) {
		s.all[0].Stop()
		for _, one := range s.all[1:] {
			one.SetMaster("m", unreached)
		}
		time.Sleep(2 * maxAge)
		const named = "; its Sentinels (s2:6379, s3:6379) named 192.0.2.1:7000: if clients can't reach it, correct it in SENTINEL MONITOR, " +
			"and set replica-announce-ip on the servers and sentinel announce-ip on the Sentinels"
		err := why(t, n, 5*time.Second)
		require.ErrorContains(t, err, named)
		require.Contains(t, Unreachable("n1", err, time.Second).Text, named)

		s.b.Freeze() // the dial succeeds, and the handshake does not
		for _, one := range s.all[1:] {
			one.SetMaster("m", s.b.Addr())
		}
		time.Sleep(4 * maxAge)
		require.ErrorContains(t, why(t, n, time.Second), "(s2:6379, s3:6379) named b:6379: ")
	})
}

// A node that was opened a moment ago has the answers of a majority, and not of all.
func TestAnExaminationWaitsForTheAnswerOfEachSentinel(t *testing.T) {
	for delay, want := range map[time.Duration]string{
		500 * time.Millisecond: "",
		10 * time.Second:       "n1 follows the Sentinel s3:6379, which can't be asked (it has not answered yet)",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSentinels(t)
			s.all[2].SetDelay(delay)
			n, err := pool.Open(s.config(3))
			require.NoError(t, err)
			defer n.Close()
			var warnings []string
			for _, f := range examined(t, n, func(q *Question) { q.Timeout = 3 * time.Second }).Findings {
				if f.Code == codeSentinels && f.Grade == Warning {
					warnings = append(warnings, f.Text)
				}
			}
			if want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, []string{want}, warnings)
		})
	}
}
