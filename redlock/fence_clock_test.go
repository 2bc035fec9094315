package redlock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

const year = 365 * 24 * time.Hour

// inTurn acquires and releases "a", and returns the fence.
func inTurn(t *testing.T, l *Locker) int64 {
	t.Helper()
	k := take(t, l, "a", time.Minute)
	require.NoError(t, k.Release(bg))
	bedOf(l).answered()
	return k.Fence()
}

// docs/dev/hazards.md H99: the fences increase and stay with the nodes' time, whatever the clients'
// clocks show. So no counter runs away.
func TestClientsClocksDoNotMatter(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var clients []*Locker
		for _, d := range []time.Duration{year, 0, -year, 200 * year, -100 * year, time.Second / 2, -time.Second / 2} {
			clients = append(clients, fl.locker(WithFencing(), wallAhead(d)))
		}
		last := int64(0)
		for i := range 10 * len(clients) {
			began := time.Now()
			fence := inTurn(t, clients[i%len(clients)])
			require.Greater(t, fence, last)
			off := time.UnixMicro(fence).Sub(began)
			require.LessOrEqual(t, off.Abs(), time.Second+time.Millisecond)
			last = fence
			pass(time.Duration(i%3) * time.Millisecond)
		}
	})
}

// docs/dev/hazards.md H99: this also holds if all nodes lose their counters. A client's clock
// cannot push a counter further ahead than the clamp allows.
func TestAClientFromTheFutureLeavesNothingBehindThatAmnesiaCouldUndo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		future, present := fl.locker(WithFencing(), wallAhead(year)), fl.locker(WithFencing())
		last := inTurn(t, future)
		fl.each((*fakeredis.Master).FlushAll)
		pass(2 * time.Second)
		require.Greater(t, inTurn(t, present), last)
	})
}

func TestAHintIsAlwaysANumberThatCountersMayHold(t *testing.T) {
	for wall, hint := range map[int64]int64{
		math.MinInt64: 1, -1: 1, 0: 1, 1: 1, maxFence - 1: maxFence - 1, maxFence: maxFence - 1, math.MaxInt64: maxFence - 1,
	} {
		s := settings{wall: func() int64 { return wall }}
		require.Equal(t, hint, s.hint())
	}
}

func TestTheClampIsASecondOrAQuarterOfTheLongestTTL(t *testing.T) {
	for longest, clamp := range map[time.Duration]time.Duration{
		24 * time.Hour: time.Second, 4 * time.Second: time.Second, time.Second: time.Second / 4, MinTTL: MinTTL / 4,
	} {
		s := settings{maxTTL: longest}
		require.Equal(t, clamp, s.clamp())
	}
}

// 5,000 grants a second on one name do not outrun the clock in microseconds. A node that loses its
// counter starts above its old value.
func TestManyGrantsASecondAndThenAmnesia(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		l := fl.locker(WithFencing())
		last := int64(0)
		for i := range 400 {
			if i%100 == 99 {
				fl.masters[0].FlushAll()
			}
			fence := inTurn(t, l)
			require.Greater(t, fence, last, "grant %d", i)
			last = fence
			time.Sleep(time.Second / 5000) // virtual
		}
	})
}

// The TTL of a counter that is ahead is longer by as much, so time overtakes the counter before it
// expires. The counter of an ordinary grant expires after 7 days and a second.
func TestACounterLivesUntilTheTimeHasOvertakenIt(t *testing.T) {
	late.LeaveOut(t, "it measures how long the counter of each node lives")
	const week = 7 * 24 * time.Hour
	for ahead, life := range map[time.Duration]time.Duration{
		0:                    week + time.Second,
		time.Second / 2:      week + time.Second,
		time.Hour:            week + time.Hour,
		30 * 24 * time.Hour:  week + 30*24*time.Hour,
		365 * 24 * time.Hour: week + 365*24*time.Hour,
	} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker(WithFencing())
			fl.each(func(m *fakeredis.Master) { countTo(m, ahead) })
			was := inTurn(t, l)
			fl.close(l) // nothing may happen for so long
			fl.each(func(m *fakeredis.Master) {
				require.InDelta(t, life, m.TTL("redlock:fence:a"), float64(2*time.Millisecond), "%v ahead", ahead)
			})
			pass(life - 2*time.Millisecond)
			require.Equal(t, 3, fl.keys("redlock:fence:a"))
			pass(4 * time.Millisecond)
			require.Zero(t, fl.keys("redlock:fence:a"))
			require.Greater(t, inTurn(t, fl.locker(WithFencing())), was, "%v ahead", ahead)
		})
	}
}

// Promise 3: after amnesia the order holds if more time has passed than the nodes' clocks differ,
// less the clamp. The last row is the negative control.
func TestNodesClocksApartAndANodeThatForgets(t *testing.T) {
	for _, c := range []struct {
		apart, quarantine time.Duration
		increases         bool
	}{
		{0, time.Microsecond, true},
		{900 * time.Millisecond, time.Microsecond, true}, // within the clamp the hint is used
		{5 * time.Second, 5 * time.Second, true},
		{-5 * time.Second, 5 * time.Second, true},
		{time.Hour, time.Hour, true},
		{5 * time.Second, 3 * time.Second, false},
	} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // it is down at first
			l := fl.locker(WithFencing())
			fl.masters[0].SetClock(c.apart)
			down(fl.masters[2])
			before := inTurn(t, l) // on the first and the second
			fl.answered()
			up(fl.masters[2])
			down(fl.masters[0])
			fl.masters[1].FlushAll()
			pass(c.quarantine)
			after := inTurn(t, l) // on the second and the third
			require.Equal(t, c.increases, after > before, "%+v: %d, then %d", c, before, after)
		})
	}
}

// Without amnesia neither the nodes' clocks nor steps of them matter.
func TestNodesClocksDoNotMatterWhereNothingIsForgotten(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		last := int64(0)
		for i, ahead := range []time.Duration{time.Hour, -time.Hour, time.Minute, year, -year, 0, 3 * time.Hour, -time.Second} {
			fl.masters[i%3].SetClock(ahead)
			down(fl.masters[(i+1)%3])
			fence := inTurn(t, l)
			require.Greater(t, fence, last, "%d", i)
			last = fence
			fl.answered()
			up(fl.masters[(i+1)%3])
		}
	})
}
