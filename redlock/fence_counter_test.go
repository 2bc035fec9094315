package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// badCounters are wrong values of a counter's key, by how they are written.
var badCounters = map[string]func(m *fakeredis.Master){
	"a list":          func(m *fakeredis.Master) { m.PushList("redlock:fence:a") },
	"a word":          counterHolds("word"),
	"nothing":         counterHolds(""),
	"2^53":            counterHolds("9007199254740992"),
	"far more":        counterHolds("1e300"),
	"no integer":      counterHolds("1.5"),
	"less than 0":     counterHolds("-5"),
	"infinity":        counterHolds("inf"),
	"no number":       counterHolds("nan"),
	"the last number": counterHolds(strconv.FormatInt(maxFence-1, 10)),
}

func counterHolds(value string) func(m *fakeredis.Master) {
	return func(m *fakeredis.Master) { m.Set("redlock:fence:a", value, 0) }
}

func TestACounterThatHoldsNoNumberIsAClearErrorAndNoVote(t *testing.T) {
	for what, spoil := range badCounters {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker(WithFencing())
			spoil(fl.masters[1])
			k := take(t, l, "a", time.Minute)
			require.Contains(t, fl.masters[0].Keys(), "a", what)
			require.NotContains(t, fl.masters[1].Keys(), "a", "%s: nothing is granted there", what)
			require.NoError(t, k.Release(bg))
			fl.answered()

			spoil(fl.masters[2])
			_, err := l.TryAcquire(bg, "a", time.Minute)
			require.ErrorIs(t, err, ErrNoQuorum, what)
			require.ErrorContains(t, err, "n2", what)
			require.ErrorContains(t, err, "fence counter", what)
			require.ErrorContains(t, err, "2^53", what)
			oneLine(t, err)
			for _, v := range votes(t, err)[1:] {
				require.Equal(t, OutcomeFailed, v, what)
			}
			fl.answered()
			require.Zero(t, fl.keys("a"), what)
		})
	}
}

// The script finds the wrong value before it writes: the extension fails on that node, with the
// reason.
func TestACounterThatIsSpoiltDuringAHoldFailsTheExtendThere(t *testing.T) {
	for what, spoil := range badCounters {
		if what == "the last number" {
			continue // a number: nothing has to be raised
		}
		inBubble(t, 3, func(fl *testbed) {
			k := take(t, fl.locker(WithFencing()), "a", time.Minute)
			spoil(fl.masters[0])
			require.NoError(t, k.Extend(bg, 2*time.Minute), what)
			require.LessOrEqual(t, fl.masters[0].TTL("a"), time.Minute, what)
			spoil(fl.masters[1])
			err := k.Extend(bg, 2*time.Minute)
			require.ErrorIs(t, err, ErrNoQuorum, what)
			require.ErrorContains(t, err, "fence counter", what)
			require.Positive(t, k.Remaining(), what)
			require.NoError(t, k.Release(bg), "what a counter holds is no matter for a release: %s", what)
		})
	}
}
