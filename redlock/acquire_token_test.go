package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// H3: every attempt of a contended Acquire has a token of its own.
func TestEveryAttemptHasATokenOfItsOwn(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Deny("SUBSCRIBE") }) // so that it polls by attempts
		for _, m := range fl.masters[1:] {                         // n1 grants each time
			m.Set("a", m.Name(), time.Hour) // the votes are split
		}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		_, err := fl.locker(WithOwner("me")).Acquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		for _, m := range fl.masters {
			all := map[string]bool{}
			for _, token := range tokens(m) {
				require.False(t, all[token], "one token in two attempts")
				all[token] = true
				require.Equal(t, "me", command.Owner(token))
			}
			require.Greater(t, len(all), 50)
		}
	})
}

// H65: a token has 130 bits from crypto/rand, and no token occurs twice.
func TestNoTokenComesTwice(t *testing.T) {
	t.Parallel()
	onFakes(t, 1, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
		all := map[string]bool{}
		for range 5_000 {
			k, err := l.TryAcquire(bg, "a", time.Minute)
			require.NoError(t, err)
			_ = k.Release(bg)
			nodes[0].seen = nil
			all[k.Token()] = true
			if len(k.Token()) != 26 || strings.Trim(k.Token(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
				t.Fatalf("token %q", k.Token())
			}
		}
		require.Len(t, all, 5_000)
	})
}

// H3: a release of attempt i that executes after the grant of a later attempt deletes nothing of
// that. (redsync draws one token for all attempts. There the second holder below also gets the
// lock.)
func TestALateReleaseOfOneAttemptLeavesTheGrantOfTheNext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // what happens to n1 is determined
		n1 := fl.masters[0]
		for _, m := range fl.masters[1:] {
			m.Set("a", "x", 200*time.Millisecond)
			m.SetDelay(time.Millisecond) // n1 has granted and answered when the attempt is lost
		}
		l := fl.locker()
		// The connection ends while the first attempt's release is in transit …
		old := n1.Clients()[0]
		n1.Hook(func(client int64, cmd string, args []string) (string, bool) {
			if client == old.ID() && cmd == "EVALSHA" && len(args) == 4 /* hash, 1, key, token */ {
				old.HoldRequests()
				old.Drop()
			}
			return "", false
		})
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 3, fl.keys("a"))
		require.GreaterOrEqual(t, len(tokens(n1)), 2)
		require.Zero(t, evalsBy(fl, old.ID()), "the release was executed before")
		// … and the release arrives only now.
		old.Release()
		fl.answered()
		require.Equal(t, 1, evalsBy(fl, old.ID()), "the release was never executed")
		require.Equal(t, 3, fl.keys("a"))
		fl.masters[2].Del("a") // one more key is lost: with it, a second holder would have two votes
		_, err = fl.process().locker().TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Check(bg))
	})
}

// evalsBy counts the scripts of one client that n1 executed.
func evalsBy(fl *testbed, client int64) int {
	n := 0
	for _, e := range fl.masters[0].Log() {
		if e.Client == client && e.Name == "EVALSHA" {
			n++
		}
	}
	return n
}
