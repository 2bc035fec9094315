package vote_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/vote"
)

// Otherwise a lock would be unregistered before the waiters in other processes are known.
func TestADecisionIsReportedBeforeTheRoundIsComplete(t *testing.T) {
	inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
		var e events
		acquire(g, e.events(), vote.Earliest)
		nodes[0].Answer(granted)
		require.Equal(t, []string{"reply", "decision", "complete"}, e.list)
	})
}

// The answers may come while the timers' goroutine reports that the vote is over.
func TestARoundIsNotCompleteWhileItsDecisionIsReported(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		var e events
		reported := make(chan struct{})
		all := e.events()
		all.OnDecision = func(*vote.Round) {
			<-reported
			e.add("decision")
		}
		acquire(g, all, vote.Earliest)
		time.Sleep(timeout)
		synctest.Wait()
		for _, n := range nodes {
			n.Answer(granted)
		}
		close(reported)
		synctest.Wait()
		require.Equal(t, []string{"reply", "reply", "reply", "decision", "complete"}, e.list)
	})
}

// Otherwise a tie shortly before the node timeout would wait for several times as long.
func TestATieEndsByTheNodeTimeoutAtTheLatest(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		time.Sleep(timeout - time.Millisecond)
		nodes[0].Answer(granted)
		nodes[1].Answer(refused)
		r.Wait(nil)
		require.Equal(t, timeout, g.Clock.Now().Sub(r.Start))
	})
}

// Two of five nodes are missing. Otherwise a tie would end before a distant node can answer, or would wait for a distant
// node that has answered.
func TestATieWaitsForTheMostDistantOfTheMissingNodes(t *testing.T) {
	const trip, answered = 50 * time.Millisecond, 2 * time.Millisecond
	for distant, want := range map[int]time.Duration{0: answered + vote.TieTimeout(answered), 3: 2 * trip, 4: 2 * trip} {
		inGroup(t, 5, func(t *testing.T, g *vote.Group, nodes []*node) {
			acquire(g, &vote.Events{}, vote.Earliest)
			time.Sleep(trip)
			nodes[distant].Answer(granted)
			r := acquire(g, &vote.Events{}, vote.Earliest)
			r.Patient = true
			time.Sleep(answered)
			nodes[0].Answer(granted)
			nodes[1].Answer(granted)
			nodes[2].Answer(refused)
			r.Wait(nil)
			require.Equal(t, want, g.Clock.Now().Sub(r.Start), "node %d", distant)
		})
	}
}

// Contenders would keep their votes, and no other one could win meanwhile. A node that is unknown, or not that far, is waited for.
func TestAnImpatientTieEndsAtOnceIfTheMissingNodesAreFar(t *testing.T) {
	const far, answered = 50 * time.Millisecond, 2 * time.Millisecond
	for near, want := range map[time.Duration]time.Duration{
		far:                  answered,
		answered + far/2:     answered,
		5 * time.Millisecond: answered + vote.TieTimeout(answered),
		0:                    answered + vote.TieTimeout(answered), // it was never measured
	} {
		inGroup(t, 5, func(t *testing.T, g *vote.Group, nodes []*node) {
			acquire(g, &vote.Events{}, vote.Earliest)
			if time.Sleep(near); near > 0 {
				nodes[4].Answer(granted)
			}
			time.Sleep(far)
			nodes[3].Answer(granted)
			r := acquire(g, &vote.Events{}, vote.Earliest)
			time.Sleep(answered)
			nodes[0].Answer(granted)
			nodes[1].Answer(granted)
			nodes[2].Answer(refused)
			r.Wait(nil)
			require.Equal(t, want, g.Clock.Now().Sub(r.Start), "%v away", near)
		})
	}
}

// Otherwise ties would wait for a node that was frozen once as if it were far away, or would not wait for a distant node
// that is back.
func TestAnAnswerAfterTheNodeTimeoutIsNoRoundTripAndTheNextOneIs(t *testing.T) {
	inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
		acquire(g, &vote.Events{}, vote.Earliest)
		time.Sleep(50 * time.Millisecond)
		nodes[0].Answer(granted)
		require.Equal(t, 100*time.Millisecond, g.Patience(0))
		acquire(g, &vote.Events{}, vote.Earliest)
		time.Sleep(2 * timeout)
		require.Zero(t, g.Patience(0))
		nodes[0].Answer(granted)
		require.Zero(t, g.Patience(0))
		acquire(g, &vote.Events{}, vote.Earliest)
		time.Sleep(40 * time.Millisecond)
		nodes[0].Answer(granted)
		require.Equal(t, 80*time.Millisecond, g.Patience(0))
	})
}
