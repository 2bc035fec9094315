package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The master that was named before may have been replaced already.
func TestAMasterThatTheSentinelsNoLongerKnowDoesNotVote(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		sr := n.shape.(*sentinelResolver)
		require.NoError(t, sr.mayVote(h.a.Addr()))
		for i := range 2 {
			sr.recordAnswer(i, answer{asked: n.cfg.Clock.Now(), answered: true})
		}
		require.Error(t, sr.mayVote(h.a.Addr()))
	})
}

// A majority that was asked too long ago is no reason to leave the present master.
func TestAnswersThatAreTooOldSwitchNoMaster(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		time.Sleep(time.Minute)
		synctest.Wait()
		sr := n.shape.(*sentinelResolver)
		for i := range 2 {
			sr.recordAnswer(i, answer{master: h.b.Addr(), asked: n.cfg.Clock.Now().Add(-extraQuarantine), answered: true})
		}
		require.Zero(t, n.Stats().Switches)
		require.Equal(t, h.a.Addr(), sr.choice.Load().master)
	})
}

// Commands would otherwise wait for the dial timeout.
func TestADialEndsAsSoonAsNoSentinelCanBeQueried(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, _ *group, n *Node) {
		sr := newSentinelResolver(n)
		defer sr.close()
		for i := range sr.watchers {
			sr.recordFailure(i, errors.New("refused"))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := sr.waitMaster(ctx)
		require.ErrorContains(t, err, "follows 3 Sentinels")
		require.Zero(t, time.Since(began))
	})
}

func TestWhichSentinelsNamedAnAddressThatNothingListensAtIsSaid(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *group, n *Node) {
		votesAs(t, n, h.a)
		h.sentinels[0].Stop()
		for _, s := range h.sentinels[1:] {
			s.SetMaster("m", unreached)
		}
		h.a.Stop()
		time.Sleep(2 * extraQuarantine)
		const named = "; its Sentinels (s2:6379, s3:6379) named 192.0.2.1:7000: if clients can't reach it, correct it in SENTINEL MONITOR, " +
			"and set replica-announce-ip on the servers and sentinel announce-ip on the Sentinels"
		r := holdingUnder("A", "k").on(n).reply(t)
		require.ErrorContains(t, r.Err, "no route to host"+named)
	})
}
