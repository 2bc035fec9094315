package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// A streak ends after 16 holds, or with the first hold that ends after 50 ms. Waiters elsewhere go
// first then, if any are known.
func TestARowEndsByNumberAndByTime(t *testing.T) {
	p := streak{others: true}
	p.holdBegins(0, time.Millisecond)
	for n := range MaxStreak {
		require.Equal(t, n == MaxStreak-1, p.holdEnds(clock.Instant(n), false))
		require.Equal(t, n == MaxStreak-1, p.mustYield)
		p.holdBegins(clock.Instant(n), time.Millisecond)
	}
	p = streak{others: true}
	p.holdBegins(0, time.Millisecond)
	require.False(t, p.holdEnds(clock.Instant(MaxStreakTime-1), false))
	p.holdBegins(clock.Instant(MaxStreakTime-1), time.Millisecond)
	require.True(t, p.holdEnds(clock.Instant(MaxStreakTime), false))
	require.True(t, p.mustYield)
}

// How long it held, or what it did long ago, does not count.
func TestAReleaseSaysHowLongItsHolderHadWaitedForTheStreak(t *testing.T) {
	var p streak
	p.waits(5)
	p.waits(6)
	for at := clock.Instant(25); at < 30; at++ { // one streak
		p.holdBegins(at, time.Millisecond)
		require.False(t, p.holdEnds(at+1, false))
		require.EqualValues(t, 20, p.waited)
		require.Zero(t, p.age(at), "it does not wait")
	}
	p.holdBegins(clock.Instant(time.Second), time.Millisecond)
	require.Zero(t, p.waited, "nobody else had it in the meantime, or wanted it")
}

// The more processes wait, the more it costs them that one of them takes the name again.
func TestAProcessInWhichNobodyWaitsHoldsANameForAShorterTimeTheMoreOthersWait(t *testing.T) {
	for waiters, want := range map[int]time.Duration{0: MaxStreakTime, 1: MaxStreakTime, 2: MaxStreakTime / 2, 10: MaxStreakTime / 10, 100: minStreakTime} {
		for _, others := range []bool{true, false} {
			p := streak{others: others, turn: turn{waiters: waiters}}
			if !others {
				want = MaxStreakTime
			}
			p.holdBegins(0, time.Millisecond)
			require.False(t, p.holdEnds(clock.Instant(want-1), true), waiters)
			require.True(t, p.holdEnds(clock.Instant(want), true), waiters)
		}
	}
}

// A refusal ends a streak early, and so does a gap long enough for another process to acquire.
func TestWhatLetsOthersInEndsARow(t *testing.T) {
	var p streak
	p.holdBegins(0, time.Millisecond)
	p.holdEnds(0, false)
	p.holdBegins(clock.Instant(time.Millisecond-1), time.Millisecond)
	require.EqualValues(t, 1, p.holds)
	p.holdBegins(clock.Instant(time.Millisecond), time.Millisecond)
	require.Zero(t, p.holds)
	p.holdEnds(0, false)
	p.others = true
	p.holdBegins(clock.Instant(maxSlot-1), time.Millisecond)
	require.EqualValues(t, 1, p.holds, "those that wait may be far away")
	p.hears(clock.Instant(maxSlot-1), release{age: time.Second})
	p.holdBegins(clock.Instant(maxSlot-1), time.Millisecond)
	require.Zero(t, p.holds, "another process had its turn")
	p.holdEnds(0, false)
	p.heardAt = 0
	p.holdBegins(clock.Instant(maxSlot), time.Millisecond)
	require.Zero(t, p.holds)
	p.holdEnds(0, false)
	p.mustYield, p.joined, p.holds = true, 0, 1
	p.lostTo(5)
	require.Zero(t, p.holds)
	require.False(t, p.mustYield)
	require.EqualValues(t, 5, p.joined, "it had its turn, and waits for the next one")
	p.lostTo(6)
	require.EqualValues(t, 5, p.joined)
}

// A process yields for one slot. The time since the name became free is subtracted. Whoever takes the name again
// and again afterwards leaves longer slots: the others may be far away.
func TestAProcessYieldsForLongerIfNobodyTakesItsTurn(t *testing.T) {
	p := streak{releasedAt: clock.Instant(time.Second), others: true}
	now := p.releasedAt.Add(time.Millisecond / 4)
	require.Zero(t, p.yieldUntil(now), "it is not their turn")
	yields := func() time.Duration {
		p.mustYield = true
		until := p.yieldUntil(now)
		require.False(t, p.mustYield)
		require.Equal(t, p.releasedAt, p.joined, "its next wait begins")
		p.holds = 0
		p.holdBegins(now, time.Millisecond)
		p.holds = 1
		p.holdBegins(now, time.Millisecond) // of the same streak
		return until.Sub(p.releasedAt)
	}
	for _, slots := range []int{1, 1, 2, 8, 20, 68, 68} {
		require.Equal(t, time.Duration(slots)*minSlot, yields())
	}
	require.NotZero(t, p.waited, "an age of 0 would be unknown")

	p.mustYield, p.joined = true, 0
	now = p.releasedAt.Add(time.Second)
	require.Zero(t, p.yieldUntil(now), "they had the time since the release")
	require.Equal(t, now.Add(-minSlot), p.joined, "it did not wait meanwhile")
}

// The keys of a minimum hold end later than the hold. Meanwhile the process waits as others do.
func TestAProcessLetsOthersGoFirstWhenItsKeysEnd(t *testing.T) {
	now := clock.Instant(time.Hour)
	end := now.Add(time.Minute)
	s := streak{others: true, start: now.Add(-time.Second), turn: turn{waiters: 1}}
	require.True(t, s.holdEnds(end, true))
	require.GreaterOrEqual(t, s.yieldUntil(now), end.Add(minSlot))
	require.Zero(t, s.age(now))
	require.Equal(t, time.Minute, s.age(end))
}

// A process of which nobody seems to know is given the name from time to time.
func TestAProcessThatHandsANameOnForLongYieldsAlsoIfItSeemsToBeAlone(t *testing.T) {
	var p streak
	at := clock.Instant(1)
	for range 2 {
		for _, row := range []struct {
			hold, pause time.Duration
			holds       int
		}{
			{MaxStreakTime, maxUnbroken / 100, 5},
			{10 * time.Second, 200 * time.Millisecond, 2},
			{time.Hour, MaxForeignPause, 2},
		} {
			holds := 0
			for ; !p.mustYield; holds++ {
				p.holdBegins(at, time.Millisecond)
				at = at.Add(row.hold)
				require.True(t, p.holdEnds(at, false))
			}
			require.Equal(t, row.holds, holds)
			require.Equal(t, row.pause, p.yieldUntil(at).Sub(at))
		}
	}
	for _, othersCome := range []func(){
		func() { p.lostTo(at) },
		func() { at = at.Add(time.Minute) }, // they had the time for it
		func() {},
	} {
		for range 4 {
			p.holdBegins(at, time.Millisecond)
			at = at.Add(MaxStreakTime)
			require.True(t, p.holdEnds(at, false))
			require.False(t, p.mustYield)
		}
		othersCome()
	}
}

// All releases of a streak say the same age. They are one turn, as the streak is for the process that has it.
func TestATurnOfAnotherProcessCountsOnce(t *testing.T) {
	p := streak{others: true, turn: turn{ahead: 5}}
	hears := func(age time.Duration) float64 {
		require.True(t, p.hears(1, release{age: age, waiters: 1}))
		return p.ahead
	}
	require.InDelta(t, 4, hears(7), 0.1)
	require.InDelta(t, 4, hears(7), 0.1, "of the same streak")
	require.InDelta(t, 3, hears(8), 0.1)
	p.said = 9
	require.False(t, p.hears(1, release{age: 9, waiters: 1}), "its own")
	require.InDelta(t, 3, p.ahead, 0.1)
	p.lostTo(1)
	require.InDelta(t, 3, p.ahead, 0.1, "it will hear of that one's release")
	p.holdBegins(1, time.Millisecond)
	require.InDelta(t, 4, p.ahead, 0.1)
	require.InDelta(t, 3, hears(8), 0.2, "another turn, after its own")
	require.InDelta(t, 2, hears(0), 0.2)
	require.InDelta(t, 1, hears(0), 0.2, "unknown")
	p.others, p.holds = false, 0
	p.holdBegins(1, time.Millisecond)
	require.InDelta(t, 1, p.ahead, 0.2, "nobody waits")
}
