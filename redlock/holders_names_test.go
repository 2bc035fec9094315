package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// The holder of the second name is on a quorum. Otherwise an attempt on two names would wait for a frozen node to learn that.
func TestAQueryEndsWhenTheHolderOfAnyNameIsKnown(t *testing.T) {
	inFakes(t, 5, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		first, second := command.NewToken(""), command.NewToken("")
		for _, n := range nodes[:2] {
			n.held["a"], n.held["b"] = first, second
		}
		nodes[2].script = answering(command.Reply{Outcome: command.Failed, Err: errSome})
		nodes[3].held["b"] = second
		silent(nodes[3], command.Acquire)
		nodes[4].script = func(_ *fakeNode, c *command.Command) bool { return c.MarkSent() }
		var err error
		require.Zero(t, elapsed(func() { _, err = l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute) }))
		require.ErrorIs(t, err, ErrHeld)
	})
}

// Otherwise the error of an attempt on several names would not say who holds the second one.
func TestAnErrorNamesTheHolderOfAnyName(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.locker(WithOwner("she")), "b", time.Minute)
		_, err := fl.locker().TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "she", held.Owner)
	})
}

// Otherwise a caller that waits for Remaining would come back while another name is still held.
func TestAnErrorNamesTheHolderWhoseKeyRemainsLongest(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		she, he := command.NewToken("she"), command.NewToken("he")
		fl.each(func(m *fakeredis.Master) {
			m.Set("a", "x", 0)
			m.Set("b", he, time.Minute)
			m.Set("c", she, time.Hour)
			m.Set("d", he, time.Minute)
			m.Set("e", "x", 0)
		})
		for _, test := range []struct {
			names []string // nodes see them in alphabetical order
			want  HeldError
		}{
			{[]string{"b", "c"}, HeldError{Owner: "she", ID: command.ID(she), Remaining: time.Hour}},
			{[]string{"c", "d"}, HeldError{Owner: "she", ID: command.ID(she), Remaining: time.Hour}},
			{[]string{"a", "c"}, HeldError{Remaining: -time.Millisecond}},
			{[]string{"c", "e"}, HeldError{Remaining: -time.Millisecond}},
		} {
			_, err := fl.locker().TryAcquireAll(bg, test.names, time.Minute)
			var held *HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, test.want, *held, "%q", test.names)
		}
	})
}
