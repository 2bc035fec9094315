package fifo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fifo"
)

// enter returns a new ticket in the queues of names.
func enter(q *fifo.Queue, names ...string) *fifo.Ticket {
	t := new(fifo.Ticket)
	q.Enter(t, names)
	return t
}

// come reports whether a channel is closed.
func come(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// requireTurn checks both ways of asking whose turn it is.
func requireTurn(t *testing.T, want bool, tickets ...*fifo.Ticket) {
	t.Helper()
	for i, k := range tickets {
		require.Equal(t, want, k.First(), "ticket %d", i)
		require.Equal(t, want, come(k.Turn()), "ticket %d", i)
	}
}

func TestTicketsGetTheirTurnInTheOrderOfEntering(t *testing.T) {
	q := fifo.New()
	var line []*fifo.Ticket
	for range 10 {
		line = append(line, enter(q, "a"))
	}
	turns := make([]<-chan struct{}, len(line))
	for i := range line {
		turns[i] = line[i].Turn()
	}
	for i := range line {
		require.True(t, come(turns[i]))
		requireTurn(t, true, line[i])
		requireTurn(t, false, line[i+1:]...)
		require.Equal(t, len(line)-i, q.Waiting("a"))
		q.Leave(line[i])
	}
	require.Zero(t, q.Waiting("a"))
}

func TestNamesDoNotWaitForEachOther(t *testing.T) {
	q := fifo.New()
	requireTurn(t, true, enter(q, "a"), enter(q, "b"), enter(q, "c", "d"))
}

func TestATicketMayLeaveFromAnyPosition(t *testing.T) {
	const n = 5
	for leaver := range n {
		q := fifo.New()
		var line []*fifo.Ticket
		for range n {
			line = append(line, enter(q, "a"))
		}
		q.Leave(line[leaver])
		left := line[leaver]
		line = append(line[:leaver:leaver], line[leaver+1:]...)
		for i := range line {
			requireTurn(t, true, line[i])
			requireTurn(t, false, line[i+1:]...)
			requireTurn(t, false, left)
			q.Leave(line[i])
		}
		require.Zero(t, q.Waiting("a"))
	}
}

func TestSeveralNamesGetTheirTurnAtTheHeadOfAll(t *testing.T) {
	q := fifo.New()
	a, b := enter(q, "a"), enter(q, "b")
	both := enter(q, "a", "b")
	turn := both.Turn()
	after := enter(q, "b")
	q.Leave(b)
	require.False(t, come(turn), "a is still taken")
	requireTurn(t, false, both, after)
	q.Leave(a)
	require.True(t, come(turn))
	requireTurn(t, true, both)
	requireTurn(t, false, after)
	q.Leave(both)
	requireTurn(t, true, after)
}

func TestOverlappingSetsInAnyOrderOfNamesDoNotWaitForEachOther(t *testing.T) {
	q := fifo.New()
	first, second := enter(q, "a", "b"), enter(q, "b", "a")
	requireTurn(t, true, first)
	requireTurn(t, false, second)
	q.Leave(first)
	requireTurn(t, true, second)
}

func TestANameGivenTwiceCountsOnce(t *testing.T) {
	q := fifo.New()
	twice := enter(q, "a", "b", "a", "a")
	requireTurn(t, true, twice)
	require.Equal(t, 1, q.Waiting("a"))
	next := enter(q, "a", "a")
	requireTurn(t, false, next)
	q.Leave(twice)
	requireTurn(t, true, next)
	q.Leave(next)
	require.Zero(t, q.Waiting("a"))
}

func TestNoNameIsNobodysToWaitFor(t *testing.T) {
	q := fifo.New()
	none := enter(q)
	requireTurn(t, true, none)
	q.Leave(none)
	requireTurn(t, false, none)
}

func TestLeavingTwiceOrNeverHavingEnteredDoesNothing(t *testing.T) {
	q := fifo.New()
	a, b, c := enter(q, "a"), enter(q, "a"), enter(q, "a")
	q.Leave(a)
	q.Leave(a)
	q.Leave(new(fifo.Ticket))
	requireTurn(t, true, b)
	requireTurn(t, false, a, c)
}

func TestATicketThatLeftEntersAgainAtTheEnd(t *testing.T) {
	q := fifo.New()
	a, b := enter(q, "a"), enter(q, "a")
	b.Turn()
	q.Leave(a)
	q.Leave(b)
	other := enter(q, "a", "b")
	q.Enter(b, []string{"b"})
	requireTurn(t, false, b)
	q.Leave(other)
	requireTurn(t, true, b)
}

func TestTheChannelOfATicketThatLeftIsNotClosed(t *testing.T) {
	q := fifo.New()
	head, leaver := enter(q, "a"), enter(q, "a")
	turn := leaver.Turn()
	q.Leave(leaver)
	q.Leave(head)
	require.False(t, come(turn))
}

func TestEnteringTwiceIsRefused(t *testing.T) {
	q := fifo.New()
	a := enter(q, "a")
	require.Panics(t, func() { q.Enter(a, []string{"b"}) })
	require.Zero(t, q.Waiting("b"))
	requireTurn(t, true, a)
}

func TestTurnIsNeverNil(t *testing.T) {
	q := fifo.New()
	head, next := enter(q, "a"), enter(q, "a")
	require.NotNil(t, head.Turn())
	require.NotNil(t, next.Turn())
	require.Equal(t, next.Turn(), next.Turn(), "one channel for all who ask")
	q.Leave(next)
	require.NotNil(t, next.Turn())
}
