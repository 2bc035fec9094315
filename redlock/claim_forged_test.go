package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A key of another application that has an expiry looks like a lock to a process that knows its
// value.
func TestResumeRefusesAClaimWhoseTokenThisLibraryDoesNotMake(t *testing.T) {
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for _, value := range []string{
			"logged in", "1", random[:25], random + "A", strings.ToLower(random), "me:" + random[:25], ":" + random,
			"a:b:" + random, "a b:" + random, "a\x1b[31m:" + random, strings.Repeat("x", command.MaxLabel+1) + ":" + random,
		} {
			for _, m := range fl.masters {
				m.Set("session", value, time.Hour)
			}
			_, err := l.Resume(bg, Claim{Names: []string{"session"}, Token: value, TTL: time.Minute})
			matches(t, err, ErrInvalid)
			require.NotContains(t, err.Error(), value)
			require.Equal(t, 3, fl.keys("session"))
			require.Equal(t, time.Hour, fl.masters[0].TTL("session"))
		}
		for _, token := range []string{random, "me:" + random} {
			_, err := l.Resume(bg, Claim{Names: []string{"a"}, Token: token, TTL: time.Minute})
			matches(t, err, ErrLost)
		}
		fl.each(func(m *fakeredis.Master) { m.Del("session") })
	})
}

// An extension would raise the fence counters to the claim's fence.
func TestAClaimWhoseFenceIsFarAheadOfTheClockIsRefused(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		k := take(t, l, "a", time.Minute)
		claim, err := k.Detach()
		require.NoError(t, err)
		forged := claim
		forged.Fence = maxFence - 1
		_, err = l.Resume(bg, forged)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "ahead of this machine's clock")
		forged.Fence = claim.Fence + (365 * 24 * time.Hour).Microseconds()
		k, err = l.Resume(bg, forged)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

func TestResumeNamesItselfInItsErrors(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err := fl.locker().Resume(ctx, Claim{Names: []string{"a"}, Token: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", TTL: time.Minute})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `redlock: resume "a": `)
	})
}
