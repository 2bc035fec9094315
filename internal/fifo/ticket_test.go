package fifo

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingIsLeftOfANameWhenItsLastTicketHasLeft(t *testing.T) {
	q := New()
	tickets := make([]Ticket, 1000)
	for i := range tickets {
		q.Enter(&tickets[i], []string{"shared", strconv.Itoa(i)}, nil)
	}
	require.Len(t, q.queues, len(tickets)+1)
	for i := range tickets {
		q.Leave(&tickets[i])
	}
	require.Empty(t, q.queues)
	for i := range tickets {
		require.Nil(t, tickets[i].entries)
		require.Zero(t, tickets[i].single)
		require.Nil(t, tickets[i].listener)
	}
}

func TestAnUncontendedNameAllocatesNothing(t *testing.T) {
	q := New()
	names := []string{"a"}
	var k Ticket
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Enter(&k, names, nil)
		q.Leave(&k)
	}))
}

func TestSeveralNamesAllocateOnce(t *testing.T) {
	q := New()
	names := []string{"a", "b", "c"}
	var k Ticket
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		q.Enter(&k, names, nil)
		q.Leave(&k)
	}), 1.0)
}

func BenchmarkUncontended(b *testing.B) {
	q := New()
	names := []string{"a"}
	var k Ticket
	b.ReportAllocs()
	for b.Loop() {
		q.Enter(&k, names, nil)
		q.Leave(&k)
	}
}

// Each name is used once, as with a lock for each of many objects.
func BenchmarkFreshNames(b *testing.B) {
	q := New()
	names := make([][]string, 1<<16)
	for i := range names {
		names[i] = []string{"orders:" + strconv.Itoa(i)}
	}
	var k Ticket
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		q.Enter(&k, names[i%len(names)], nil)
		q.Leave(&k)
	}
}

// told counts notifications.
type notified int

func (n *notified) OnHead() { *n++ }

func BenchmarkHandingOn(b *testing.B) {
	q := New()
	names := []string{"a"}
	var one, two Ticket
	var turns notified
	holder, next := &one, &two
	q.Enter(holder, names, &turns)
	b.ReportAllocs()
	for b.Loop() {
		q.Enter(next, names, &turns)
		q.Leave(holder)
		holder, next = next, holder
	}
	require.Equal(b, b.N, int(turns))
}
