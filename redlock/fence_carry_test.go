package redlock

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H93.
func TestAResourceLetsThroughWhatIsLargerOrEqualFromTheSameOwner(t *testing.T) {
	for _, c := range []struct {
		seen      int64
		seenOwner string
		fence     int64
		owner     string
		accepted  bool
	}{
		{0, "", 1, "a", true}, // the first
		{1, "a", 2, "b", true},
		{1, "a", 2, "a", true},
		{2, "a", 2, "a", true},
		{2, "a", 2, "b", false}, // a node lost its counter: >= alone would not notice
		{2, "b", 1, "a", false},
		{2, "a", 1, "a", false}, // an earlier lock of the same owner
		{2, "a", 0, "b", false},
		{0, "", 0, "a", false}, // without fencing there is no fence
		{maxFence - 1, "a", maxFence - 2, "a", false},
		{maxFence - 2, "a", maxFence - 1, "b", true},
	} {
		require.Equal(t, c.accepted, AcceptFence(c.seen, c.seenOwner, c.fence, c.owner), "%+v", c)
	}
}

func TestWithoutFencingThereIsNoFenceAndNoCounter(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute)
		require.Zero(t, k.Fence())
		require.NoError(t, k.Extend(bg, time.Minute))
		c, err := k.Detach()
		require.NoError(t, err)
		require.Zero(t, c.Fence)
		require.Equal(t, []string{"a"}, fl.left())
	})
}

// docs/dev/hazards.md H90: the fence belongs to the acquisition, whatever the counters become
// meanwhile.
func TestAFenceNeverChangesDuringAHold(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		k := take(t, l, "a", time.Minute)
		was := k.Fence()
		require.NotZero(t, was)
		most := fl.apart() // as if others had raised the counters
		require.NoError(t, k.Extend(bg, time.Minute))
		require.NoError(t, k.Check(bg))
		require.Equal(t, was, k.Fence())
		require.Equal(t, most, counter(t, fl.masters[0], "a"), "an extend lowers no counter")
		require.NoError(t, k.Release(bg))
		require.Equal(t, was, k.Fence())
		require.Greater(t, take(t, l, "a", time.Minute).Fence(), was)
	})
}

// docs/dev/rules.md rule 14.
func TestAnExtendCarriesTheFenceToAStraggler(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is the straggler
		l := fl.locker(WithFencing())
		for i, m := range fl.masters[:2] { // they agree, and are an hour ahead of the third
			m.Set("redlock:fence:a", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10), time.Minute)
			m.SetDelay(time.Duration(i) * time.Microsecond)
		}
		fl.masters[2].SetDelay(time.Second / 4)
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		pass(time.Second)
		require.False(t, k.keys.confirmed)
		require.Less(t, counter(t, fl.masters[2], "a"), k.Fence())
		require.NoError(t, k.Extend(bg, time.Minute))
		pass(time.Second)
		require.Equal(t, k.Fence(), counter(t, fl.masters[2], "a"))
		ahead := fl.masters[2].TTL("redlock:fence:a") - 7*24*time.Hour
		require.InDelta(t, time.Hour, ahead, float64(3*time.Second))
	})
}

func TestAnExtendRaisesNoCounterWhereTheKeyIsNotOurs(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(WithFencing()), "a", time.Minute)
		m := fl.masters[2]
		m.Set("a", "another's", time.Minute)
		m.Del("redlock:fence:a")
		require.NoError(t, k.Extend(bg, time.Minute))
		fl.answered()
		require.Zero(t, counter(t, m, "a"))
	})
}

func TestAClaimCarriesTheFenceInEveryForm(t *testing.T) {
	for form, through := range map[string]func(Claim) (Claim, error){
		"as it is": func(c Claim) (Claim, error) { return c, nil },
		"text": func(c Claim) (again Claim, err error) {
			text, err := c.MarshalText()
			if err != nil {
				return Claim{}, err
			}
			return again, again.UnmarshalText(text)
		},
		"JSON": func(c Claim) (again Claim, err error) {
			b, err := json.Marshal(c)
			if err != nil {
				return Claim{}, err
			}
			return again, json.Unmarshal(b, &again)
		},
	} {
		inBubble(t, 3, func(fl *testbed) {
			k := take(t, fl.locker(WithFencing()), "a", time.Minute)
			c, err := k.Detach()
			require.NoError(t, err)
			require.Equal(t, k.Fence(), c.Fence, form)
			c, err = through(c)
			require.NoError(t, err)
			fl.masters[2].Del("redlock:fence:a")
			again, err := fl.locker().Resume(bg, c) // a Locker without fencing, too
			require.NoError(t, err)
			require.Equal(t, k.Fence(), again.Fence(), form)
			require.NoError(t, again.Extend(bg, time.Minute))
			fl.answered()
			require.Equal(t, k.Fence(), counter(t, fl.masters[2], "a"), form)
			require.NoError(t, again.Release(bg))
		})
	}
}

func TestAClaimsFenceIsBelow2To53(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		c, err := take(t, l, "a", time.Minute).Detach()
		require.NoError(t, err)
		fence := c.Fence
		for _, bad := range []int64{maxFence, maxFence + 1, math.MaxInt64, -1, math.MinInt64} {
			c.Fence = bad
			_, err = l.Resume(bg, c)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "2^53")
		}
		c.Fence = fence
		_, err = l.Resume(bg, c)
		require.NoError(t, err)
	})
}

func TestAShareHasTheLocksFence(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		k := take(t, l, "a", time.Minute)
		s, err := l.TryAcquire(k.Context(), "a", time.Minute, WithShared())
		require.NoError(t, err)
		require.Equal(t, k.Fence(), s.Fence())

		c, err := k.Detach()
		require.NoError(t, err)
		c.Fence = 0
		k, err = l.Resume(bg, c)
		require.NoError(t, err)
		_, err = l.TryAcquire(k.Context(), "a", time.Minute, WithShared())
		require.ErrorIs(t, err, ErrInvalid, "it could promise no number")
	})
}

// A holder without fencing between two holders with it does not disturb the order.
func TestAHolderWithoutFencingLeavesTheOrderAlone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, plain := fl.locker(WithFencing()), fl.locker()
		last := int64(0)
		fl.apart()
		for i := range 9 {
			down(fl.masters[i%3])
			k := take(t, l, "a", time.Minute)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			require.NoError(t, k.Release(bg))
			fl.answered()
			up(fl.masters[i%3])
			between := take(t, plain, "a", time.Minute)
			require.Zero(t, between.Fence())
			require.NoError(t, between.Extend(bg, time.Minute))
			require.NoError(t, between.Release(bg))
			fl.answered()
		}
	})
}

// docs/dev/hazards.md H91.
func TestCountersExpire(t *testing.T) {
	const week = 7 * 24 * time.Hour
	inBubble(t, 3, func(fl *testbed) {
		k, err := fl.locker(WithFencing()).TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		require.NoError(t, err)
		fl.answered()
		fl.each(func(m *fakeredis.Master) {
			for _, key := range []string{"a", "b"} {
				require.InDelta(t, week+time.Second, m.TTL(command.FencePrefix+key), float64(maxLate), m.Name())
			}
		})
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, []string{"redlock:fence:a", "redlock:fence:b"}, fl.left())
	})
}
