package sentinel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// The master that was named before may have been replaced already.
func TestAMasterThatTheSentinelsNoLongerKnowDoesNotVote(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		sr := resolverOf(n)
		require.NoError(t, sr.mayVote(h.A.Addr()))
		for i := range 2 {
			sr.recordAnswer(i, answer{asked: nodetest.Now(n), answered: true})
		}
		require.Error(t, sr.mayVote(h.A.Addr()))
	})
}

// A majority that was asked too long ago is no reason to leave the present master.
func TestAnswersThatAreTooOldSwitchNoMaster(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		time.Sleep(time.Minute)
		synctest.Wait()
		sr := resolverOf(n)
		for i := range 2 {
			sr.recordAnswer(i, answer{master: h.B.Addr(), asked: nodetest.Now(n).Add(-extraQuarantine), answered: true})
		}
		require.Zero(t, n.Stats().Switches)
		require.Equal(t, h.A.Addr(), sr.choice.Load().master)
	})
}

// Commands would otherwise wait for the dial timeout.
func TestADialEndsAsSoonAsNoSentinelCanBeQueried(t *testing.T) {
	behindSentinels(t, nil, func(t *testing.T, _ *nodetest.Group, n *pool.Node) {
		sr := newResolver(resolverOf(n).parts, resolverOf(n).of)
		defer sr.End()
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
	behindSentinels(t, nil, func(t *testing.T, h *nodetest.Group, n *pool.Node) {
		votesAs(t, n, h.A)
		h.Sentinels[0].Stop()
		for _, s := range h.Sentinels[1:] {
			s.SetMaster("m", "192.0.2.1:7000")
		}
		h.A.Stop()
		time.Sleep(2 * extraQuarantine)
		const named = "; its Sentinels (s2:6379, s3:6379) named 192.0.2.1:7000: if clients can't reach it, correct it in SENTINEL MONITOR, " +
			"and set replica-announce-ip on the servers and sentinel announce-ip on the Sentinels"
		r := holdingUnder("A", "k").On(n).Reply(t)
		require.ErrorContains(t, r.Err, "no route to host"+named)
	})
}

func TestAnAddressThatASentinelNamesIsPrintable(t *testing.T) {
	_, err := masterIn([]any{[]byte("h\x1b[31m"), []byte("1")}, nil)
	require.ErrorIs(t, err, named.ErrNoAddress)
	_, err = masterIn([]any{[]byte("h"), []byte("1\n")}, nil)
	require.ErrorIs(t, err, named.ErrNoAddress)
}
