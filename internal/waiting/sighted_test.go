package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// The tokens that an attempt saw, the names that are awaited then, and what is remembered.
func TestWhatIsSeenOfHolders(t *testing.T) {
	names := []string{"a", "b", "c"}
	const never, now = clock.Instant(0), clock.Instant(time.Minute)
	for _, c := range []struct {
		what    string
		before  []string
		tokens  []string
		awaited []string
		same    bool
		changed clock.Instant
	}{
		{"nothing was seen before", nil, []string{"x", "y", ""}, names, false, never},
		{"nothing is seen", []string{"x", "y", ""}, nil, names[1:2], false, never},
		{"the same tokens", []string{"x", "", ""}, []string{"x", "", ""}, names[:1], true, never},
		{"one token stays", []string{"x", "y", ""}, []string{"z", "y", ""}, names[1:2], false, now},
		{"two tokens stay: the last one", []string{"x", "y", "z"}, []string{"x", "", "z"}, names[2:], false, now},
		{"all are others", []string{"x", "y", "z"}, []string{"u", "v", "w"}, names, false, now},
		{"a free name is none that stays", []string{"", "y", ""}, []string{"", "v", ""}, names, false, now},
	} {
		s := sighted{tokens: c.before, vain: 3}
		require.Equal(t, c.awaited, s.awaited(names[1:2], names, c.tokens), c.what)
		require.Equal(t, c.same, s.note(now, verdict.Contention{Tokens: c.tokens, Foreign: true}), c.what)
		require.Equal(t, c.changed, s.changed, c.what)
		require.Equal(t, c.same, s.vain == 3, "%s: attempts in vain are forgotten when the tokens change", c.what)
		require.True(t, s.foreign, c.what)
		require.Equal(t, c.changed != never, s.changing(now.Add(busy-1)), c.what)
		require.False(t, s.changing(now.Add(busy)), c.what)
	}
}

// Messages may be forged.
func TestAttemptsInVainAreFollowedByPausesThatDouble(t *testing.T) {
	var s sighted
	for range patience {
		require.Zero(t, s.inVain())
	}
	for i := range maxDoublings {
		require.Equal(t, i+1, s.inVain())
	}
	require.Equal(t, maxDoublings, s.inVain())
}
