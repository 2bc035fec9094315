package fifo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fifo"
)

// contender has a ticket, and a channel that is closed when the contender is at the head.
type contender struct {
	fifo.Ticket
	queue *fifo.Queue
	turn  chan struct{}
}

func (c *contender) OnHead() { close(c.turn) }

func (c *contender) enter(names ...string) {
	c.turn = make(chan struct{})
	if c.queue.Enter(&c.Ticket, names, c) {
		c.OnHead()
	}
}

func (c *contender) leave() { c.queue.Leave(&c.Ticket) }

// enter returns a new contender in the queues of names.
func enter(q *fifo.Queue, names ...string) *contender {
	c := &contender{queue: q}
	c.enter(names...)
	return c
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

// requireTurn checks that the contenders report the expected turn, and that those at the head were
// notified.
func requireTurn(t *testing.T, want bool, all ...*contender) {
	t.Helper()
	for i, c := range all {
		require.Equal(t, want, c.First(), "contender %d", i)
		require.Equal(t, want, come(c.turn), "contender %d", i)
	}
}

func TestTicketsGetTheirTurnInTheOrderOfEntering(t *testing.T) {
	q := fifo.New()
	var line []*contender
	for range 10 {
		line = append(line, enter(q, "a"))
	}
	for i := range line {
		requireTurn(t, true, line[i])
		requireTurn(t, false, line[i+1:]...)
		require.Equal(t, len(line)-i, q.Waiting("a"))
		line[i].leave()
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
		var line []*contender
		for range n {
			line = append(line, enter(q, "a"))
		}
		line[leaver].leave()
		left := line[leaver]
		line = append(line[:leaver:leaver], line[leaver+1:]...)
		for i := range line {
			requireTurn(t, true, line[i])
			requireTurn(t, false, line[i+1:]...)
			require.False(t, left.First())
			require.Equal(t, leaver == 0, come(left.turn), "told only of the turn that it had")
			line[i].leave()
		}
		require.Zero(t, q.Waiting("a"))
	}
}

func TestSeveralNamesGetTheirTurnAtTheHeadOfAll(t *testing.T) {
	q := fifo.New()
	a, b := enter(q, "a"), enter(q, "b")
	both := enter(q, "a", "b")
	after := enter(q, "b")
	b.leave()
	requireTurn(t, false, both, after) // a still has a holder
	a.leave()
	requireTurn(t, true, both)
	requireTurn(t, false, after)
	both.leave()
	requireTurn(t, true, after)
}

func TestOverlappingSetsInAnyOrderOfNamesDoNotWaitForEachOther(t *testing.T) {
	q := fifo.New()
	first, second := enter(q, "a", "b"), enter(q, "b", "a")
	requireTurn(t, true, first)
	requireTurn(t, false, second)
	first.leave()
	requireTurn(t, true, second)
}

func TestANameGivenTwiceCountsOnce(t *testing.T) {
	q := fifo.New()
	twice := enter(q, "a", "b", "a", "a")
	requireTurn(t, true, twice)
	require.Equal(t, 1, q.Waiting("a"))
	next := enter(q, "a", "a")
	requireTurn(t, false, next)
	twice.leave()
	requireTurn(t, true, next)
	next.leave()
	require.Zero(t, q.Waiting("a"))
}

func TestNoNameHasNoQueue(t *testing.T) {
	q := fifo.New()
	none := enter(q)
	requireTurn(t, true, none)
	none.leave()
	require.False(t, none.First())
}

func TestLeavingTwiceOrNeverHavingEnteredDoesNothing(t *testing.T) {
	q := fifo.New()
	a, b, c := enter(q, "a"), enter(q, "a"), enter(q, "a")
	a.leave()
	a.leave()
	q.Leave(new(fifo.Ticket))
	requireTurn(t, true, b)
	requireTurn(t, false, c)
	require.False(t, a.First())
}

func TestATicketThatLeftEntersAgainAtTheEnd(t *testing.T) {
	q := fifo.New()
	a, b := enter(q, "a"), enter(q, "a")
	a.leave()
	b.leave()
	other := enter(q, "a", "b")
	b.enter("b")
	requireTurn(t, false, b)
	other.leave()
	requireTurn(t, true, b)
}

func TestATicketThatLeftGetsNoTurn(t *testing.T) {
	q := fifo.New()
	head, leaver := enter(q, "a"), enter(q, "a")
	leaver.leave()
	head.leave()
	require.False(t, come(leaver.turn))
}

func TestATurnWasReportedWhenLeaveReturns(t *testing.T) {
	q := fifo.New()
	head := enter(q, "a", "b")
	one, two := enter(q, "a"), enter(q, "b")
	head.leave()
	requireTurn(t, true, one, two)
}

func TestEnteringTwiceIsRefused(t *testing.T) {
	q := fifo.New()
	a := enter(q, "a")
	require.Panics(t, func() { q.Enter(&a.Ticket, []string{"b"}, a) })
	require.Zero(t, q.Waiting("b"))
	requireTurn(t, true, a)
}
