package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A VerifyMarker says whether a quarantine may end, as far as this client saw it begin on this connection or before it. On a later
// connection that would say too much.
func TestAVerifyMarkerIsNotSentOnAnotherConnection(t *testing.T) {
	l := begun(t)
	s := &l.server.standing
	verify := s.precede(guarded("A", "k"))
	require.Equal(t, command.VerifyMarker, verify.Op)
	l.handle(verify, nil, redis.Error("NOSCRIPT No matching script."))
	require.Zero(t, l.server.queue.len())
	s.end()
	s.begin(l.conn, l.facts)
	again := s.first()
	require.Len(t, again, 1)
	require.NotSame(t, verify, again[0])
	require.False(t, again[0].UsesEval(), "the new connection loads the script")
	require.Empty(t, s.first())
}

// One that the server does not know is made again at once, and goes by its text.
func TestAVerifyMarkerThatTheServerDoesNotKnowGoesByItsText(t *testing.T) {
	l := begun(t)
	s := &l.server.standing
	verify := s.precede(guarded("A", "k"))
	require.False(t, s.wanted.Load())
	l.handle(verify, nil, redis.Error("NOSCRIPT No matching script."))
	require.True(t, s.wanted.Load())
	again := s.first()
	require.Len(t, again, 1)
	require.True(t, again[0].UsesEval())
	require.False(t, again[0].Cancelled())
}

// At most one INFO is under way, and the next one comes when it was answered.
func TestAServerIsAskedOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &begun(t).server.standing
		time.Sleep(healthyEvery)
		synctest.Wait()
		require.Equal(t, command.Info, s.first()[0].Op)
		s.voted(command.Reply{Outcome: command.Failed, Err: errors.New("OOM")})
		time.Sleep(time.Minute)
		require.False(t, s.wanted.Load())
		s.checked(nil, errors.New("BUSY"))
		time.Sleep(unhealthyEvery)
		synctest.Wait()
		require.Len(t, s.first(), 1)
	})
}

// A timer may fire late.
func TestATimerOfAnEndedConnectionWantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &begun(t).server.standing
		s.end()
		time.Sleep(healthyEvery)
		s.tick()
		require.False(t, s.wanted.Load())
		require.Nil(t, s.verdict.Load())
		require.NoError(t, s.admits(acquiring("A", "k")), "the writer of the next connection asks again")
	})
}

// docs/dev/rules.md rule 29: the Sentinels name another master while a command is queued.
func TestNothingIsWrittenToAServerThatMayNotVoteAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master, s *Server) {
		asked, other := 0, errors.New("another master")
		s.cfg.MayVote = func(string) error {
			if asked++; asked > 1 {
				return other
			}
			return nil
		}
		c, got := acquiring("A", "k"), make(answers, 1)
		c.To = got
		require.NoError(t, s.Submit(c, nil), "it may vote")
		r := <-got
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorIs(t, r.Err, other)
		require.Empty(t, m.Keys())
	})
}
