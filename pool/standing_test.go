package pool

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// behindAGate has dials wait until open is called, again and again.
func behindAGate(open *func()) func(c *Config) {
	return func(c *Config) {
		gate, dial := make(chan struct{}), c.Dial
		*open = func() { gate <- struct{}{} }
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
	}
}

// Nothing was known of the server when the command was queued.
func TestACommandThatWaitedForADialIsNotSentToAnUnfitServer(t *testing.T) {
	var open func()
	replica := func(m *fakeredis.Master) { m.SetInfo("role", "slave") }
	onMaster(t, replica, behindAGate(&open), func(t *testing.T, m *fakeredis.Master, n *Node) {
		c := acquiring("A", longTTL, "k").on(n)
		synctest.Wait()
		require.True(t, c.pending())
		open()
		r := c.reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, command.ErrUnfit)
		require.Zero(t, count(m, "SET"))
	})
}

// The connection before led to another run of the server, with another marker.
func TestAGuardedCommandCarriesTheMarkerOfItsConnection(t *testing.T) {
	var open func()
	onMaster(t, func(*fakeredis.Master) {}, behindAGate(&open), func(t *testing.T, m *fakeredis.Master, n *Node) {
		open()
		admitted(t, m, n)
		require.NoError(t, m.Restart(true))
		synctest.Wait()
		m.ForgetLog()
		c := acquiringUnder("B", "k").on(n)
		synctest.Wait()
		require.True(t, c.pending())
		open()
		requireQuarantined(t, c.reply(t), guardTTL)
		sent := 0
		for _, e := range m.Log() {
			if slices.Contains(e.Args, "B") {
				require.Contains(t, strings.Join(e.Args, " "), m.RunID())
				sent++
			}
		}
		require.Equal(t, 1, sent)
	})
}

// begun returns a link that has begun.
func begun(t *testing.T) *link {
	t.Helper()
	n := newNode(&Config{Name: "n1", Clock: clock.Runtime()})
	guarded(n)
	l := newLink(newPipeline(n), &transport.Conn{}, session.Facts{Facts: sound()})
	l.pipeline.standing.begin(l.conn, l.facts)
	t.Cleanup(l.pipeline.standing.end)
	return l
}

// A VerifyMarker says whether a quarantine may end, as far as this client saw it begin on this connection or before it. On a later
// connection that would say too much.
func TestAVerifyMarkerIsNotSentOnAnotherConnection(t *testing.T) {
	l := begun(t)
	s := &l.pipeline.standing
	verify := s.precede(&acquiringUnder("A", "k").Command)
	require.Equal(t, command.VerifyMarker, verify.Op)
	l.handle(verify, nil, redis.Error("NOSCRIPT No matching script."))
	require.Zero(t, l.pipeline.queue.len())
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
	s := &l.pipeline.standing
	verify := s.precede(&acquiringUnder("A", "k").Command)
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
		n := newNode(&Config{Name: "n1", Clock: clock.Runtime()})
		s := &newPipeline(n).standing
		s.begin(&transport.Conn{}, session.Facts{Facts: sound()})
		defer s.end()
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
		n := newNode(&Config{Name: "n1", Clock: clock.Runtime()})
		s := &newPipeline(n).standing
		s.begin(&transport.Conn{}, session.Facts{Facts: sound()})
		s.end()
		time.Sleep(healthyEvery)
		s.tick()
		require.False(t, s.wanted.Load())
		require.Nil(t, s.verdict.Load())
		require.NoError(t, s.admits(&acquiring("A", longTTL, "k").Command), "the writer of the next connection asks again")
	})
}
