package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
)

// A caller that locks twice is told so, and does not look for another client.
func TestALockThatThisProcessHoldsIsNotSaidToBeAnotherClients(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker(WithOwner("me"))
		k := takeAtOnce(t, l, "a", time.Minute)
		pass(200 * time.Millisecond)
		waited := second(l.Acquire(bg, "a", time.Minute, WithWait(time.Second)))
		require.ErrorContains(t, waited, fmt.Sprintf(`until then: redlock: held by this process (id %s, for 1.2s)`, k.ID()))
		refused := tried(l)
		require.ErrorContains(t, refused, `redlock: held by this process: acquire "a": 0 of 3 votes, 2 needed [`)
		require.ErrorContains(t, refused, `refused: held by this process for 5`)
		for _, err := range []error{waited, refused} {
			require.ErrorIs(t, err, ErrHeld)
			require.NotContains(t, err.Error(), "another")
			var held *HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, k.ID(), held.ID)
			require.Equal(t, "me", held.Owner)
		}
		require.ErrorContains(t, tried(fl.process().locker()), `redlock: held by another client: acquire "a"`)
		require.NoError(t, k.Release(bg))
	})
}

func TestTheDefaultOwnerIsTheProcess(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		for _, test := range []struct {
			opts []Option
			want string
		}{
			{nil, `^.+/\d+$`},
			{[]Option{WithOwner("worker-7")}, `^worker-7$`},
			{[]Option{WithOwner("")}, `^$`},
		} {
			l, err := New([]*pool.Node{fl.node(fl.masters[0], pool.Config{})}, append(test.opts, WithClock(fl.clock))...)
			require.NoError(t, err)
			k, err := l.Acquire(bg, "a", time.Minute)
			require.NoError(t, err)
			s, err := l.Inspect(bg, "a")
			require.NoError(t, err)
			require.Regexp(t, test.want, s.Owner)
			require.Equal(t, k.ID(), s.ID)
			require.Equal(t, k.ID(), s.Nodes[0].ID)
			require.NoError(t, k.Release(bg))
			require.NoError(t, l.Close(bg))
		}
	})
}
