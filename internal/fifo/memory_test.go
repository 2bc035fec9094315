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
		q.Enter(&tickets[i], []string{"shared", strconv.Itoa(i)})
	}
	require.Len(t, q.lines, len(tickets)+1)
	for i := range tickets {
		q.Leave(&tickets[i])
	}
	require.Empty(t, q.lines)
	for i := range tickets {
		require.Nil(t, tickets[i].places)
		require.Zero(t, tickets[i].single)
		require.Nil(t, tickets[i].turn)
	}
}

func TestAnUncontendedNameAllocatesNothing(t *testing.T) {
	q := New()
	names := []string{"a"}
	var k Ticket
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Enter(&k, names)
		if !k.First() {
			<-k.Turn()
		}
		q.Leave(&k)
	}))
}

func TestSeveralNamesAllocateOnce(t *testing.T) {
	q := New()
	names := []string{"a", "b", "c"}
	var k Ticket
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		q.Enter(&k, names)
		<-k.Turn()
		q.Leave(&k)
	}), 1.0)
}

func BenchmarkUncontended(b *testing.B) {
	q := New()
	names := []string{"a"}
	var k Ticket
	b.ReportAllocs()
	for b.Loop() {
		q.Enter(&k, names)
		k.First()
		q.Leave(&k)
	}
}

// Names come and go, as with a lock for each of many things.
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
		q.Enter(&k, names[i%len(names)])
		q.Leave(&k)
	}
}

func BenchmarkHandingOn(b *testing.B) {
	q := New()
	names := []string{"a"}
	var one, two Ticket
	holder, next := &one, &two
	q.Enter(holder, names)
	b.ReportAllocs()
	for b.Loop() {
		q.Enter(next, names)
		turn := next.Turn()
		q.Leave(holder)
		<-turn
		holder, next = next, holder
	}
}
