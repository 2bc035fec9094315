package server

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// A client without the right to kill whose connections end all the time does not remember more and more.
func TestAcquiresThatMayBeExecutedLateAreBounded(t *testing.T) {
	const beyond = 50
	l := idle()
	for i := range undo.MaxLate + beyond {
		l.flight.push([]*command.Command{acquiring(strconv.Itoa(i), "k")})
	}
	l.server.unanswered(l)
	require.True(t, l.server.ledger.late.Some())
	_, dropped := l.server.cfg.Parked()
	require.EqualValues(t, beyond, dropped)
}

// A caller must not wait while the commands of an ended connection are sorted. The time for that is
// compared with the time that it took to make the commands.
func TestManyAcquiresThatDieWithTheirConnectionAreSortedOutInNoTime(t *testing.T) {
	l := idle()
	// The shortest of each: a busy machine interrupts most turns. All turns do the same work, so too
	// many looks at the orphans would be in all of them.
	sending, sorting := time.Hour, time.Hour
	for turn := 0; turn < 10 || sorting >= 3*sending && turn < 300; turn++ { // one connection after the other, while nothing expires
		began := time.Now()
		for i := range undo.MaxLate {
			l.flight.push([]*command.Command{acquiring(strconv.Itoa(i), "k")})
		}
		sending = min(sending, time.Since(began))
		began = time.Now()
		require.Len(t, l.server.unanswered(l), undo.MaxLate)
		sorting = min(sorting, time.Since(began))
	}
	require.True(t, l.server.ledger.late.Some())
	require.Less(t, sorting, 3*sending, "one look at all orphans for each would be 12, and more of more")
}

// A node that loses connections again and again would otherwise remember each acquire that was in transit.
func TestALateAcquireIsForgottenWithItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := idle()
		ledger := &l.server.ledger
		l.flight.push([]*command.Command{acquiring("A", "k")})
		l.server.unanswered(l)
		ledger.late.Connected([]undo.Conn{{ClientID: 1, RunID: "r"}}, l.server.cfg.now()) // it could not be ended
		require.True(t, ledger.late.Some())
		time.Sleep(2 * longTTL)
		l.server.unanswered(l)
		require.False(t, ledger.late.Some())
		end, left := ledger.late.ToEnd("")
		require.Empty(t, append(end, left...))
	})
}

// The reader may handle the error of an undo after Close has cancelled all repetitions.
func TestAClosedNodeRepeatsNoUndo(t *testing.T) {
	s := idle().server
	s.Close()
	failed := command.Reply{Outcome: command.Failed, Err: errors.New("BUSY")}
	require.False(t, s.ledger.answered(expiring(s, releasing("A", "k")), failed, false))
	parked, _ := s.cfg.Parked()
	require.Zero(t, parked)
}

// expiring gives a command a not-after instant that does not pass in a test.
func expiring(s *Server, c *command.Command) *command.Command {
	c.NotAfter = s.cfg.now().Add(mostTTL)
	return c
}

// A retired server hands over the undos that wait for a retry, and what sweeps what its acquires may still make. The undo and the sweep
// of an acquire come to the server that has the key now.
func TestARetiredServerHandsOverWhatIsToBeDeleted(t *testing.T) {
	l := idle()
	s := l.server
	failed := command.Reply{Outcome: command.Failed, Err: errors.New("BUSY")}
	require.True(t, s.ledger.answered(expiring(s, releasing("A", "a")), failed, false))
	l.flight.push([]*command.Command{acquiring("B", "b")})
	s.unanswered(l)
	s.ledger.undone(releasing("B", "b"))
	enqueue(s, releasing("C", "c"))
	var handed []string
	s.Retire(func(c *command.Command) { handed = append(handed, c.Op.String()+" "+c.Keys[0]) }, ErrClosed)
	require.Equal(t, []string{"sweep b", "release c", "release a"}, handed)
	parked, _ := s.cfg.Parked()
	require.Zero(t, parked)
	require.ErrorIs(t, s.Submit(releasing("D", "d"), nil), ErrRetired)
	s.Requeue(releasing("E", "e"))
	require.Equal(t, "release e", handed[3])
}

// One round trip for each of them would not fit into the dial timeout.
func TestAllOldConnectionsAreEndedInTwoRoundTrips(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master, s *Server) {
		const old = 50
		for i := range old {
			s.ledger.late.Lost(acquiring(strconv.Itoa(i), "k"), undo.Conn{ClientID: int64(1000 + i), RunID: m.RunID()})
		}
		m.SetDelay(s.cfg.Settings.DialTimeout / 10) // in each direction, and the dial takes three round trips
		m.Clients()[0].Drop()
		time.Sleep(s.cfg.Settings.DialTimeout)
		require.True(t, s.Up())
		require.Equal(t, 2, int(s.Dials.Load()))
		end, left := s.ledger.late.ToEnd(m.RunID())
		require.Empty(t, append(end, left...))
	})
}
