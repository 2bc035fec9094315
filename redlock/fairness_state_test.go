package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// A streak ends after 16 holds, or with the first hold that ends after 50 ms. Waiters elsewhere go
// first then, if any are known.
func TestARowEndsByNumberAndByTime(t *testing.T) {
	p := nameState{remoteWaiters: true}
	p.holdBegins(0, time.Millisecond)
	for n := range maxStreak {
		require.Equal(t, n == maxStreak-1, p.holdEnds(clock.Instant(n)))
		require.Equal(t, n == maxStreak-1, p.mustYield)
		p.holdBegins(clock.Instant(n), time.Millisecond)
	}
	p = nameState{remoteWaiters: true}
	p.holdBegins(0, time.Millisecond)
	require.False(t, p.holdEnds(clock.Instant(maxStreakTime-1)))
	p.holdBegins(clock.Instant(maxStreakTime-1), time.Millisecond)
	require.True(t, p.holdEnds(clock.Instant(maxStreakTime)))
	require.True(t, p.mustYield)
}

// A refusal ends a streak early, and so does a gap long enough for another process to acquire.
func TestWhatLetsOthersInEndsARow(t *testing.T) {
	var p nameState
	p.holdBegins(0, time.Millisecond)
	p.holdEnds(0)
	p.holdBegins(clock.Instant(time.Millisecond-1), time.Millisecond)
	require.Equal(t, 1, p.streak)
	p.holdBegins(clock.Instant(time.Millisecond), time.Millisecond)
	require.Zero(t, p.streak)
	p.holdEnds(0)
	p.mustYield, p.emptyYields = true, 2
	p.lostTo(false)
	require.Zero(t, p.streak)
	require.False(t, p.mustYield)
	require.Equal(t, 2, p.emptyYields)
	p.lostTo(true)
	require.Zero(t, p.emptyYields)
}

// The time for which a process yields doubles with each yield. The time since the name became free
// is subtracted.
func TestLettingOthersGoFirstTakesLongerEachTime(t *testing.T) {
	p := nameState{releasedAt: clock.Instant(time.Second)}
	now := p.releasedAt.Add(time.Millisecond)
	require.Zero(t, p.yieldFor(now, 3*time.Millisecond), "it is not their turn")
	for n := range 2 * maxYieldDoublings {
		p.mustYield = true
		require.Equal(t, 3*time.Millisecond<<min(n, maxYieldDoublings-1)-time.Millisecond, p.yieldFor(now, 3*time.Millisecond))
		require.False(t, p.mustYield)
	}
	p.mustYield, p.emptyYields = true, 0
	require.Zero(t, p.yieldFor(p.releasedAt.Add(time.Second), 3*time.Millisecond))
	require.Zero(t, p.emptyYields)
}

// A name's state is kept for a second where others wait, and then nothing is left of it.
func TestAPlaceIsKeptWhereOthersWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		require.NoError(t, k.Release(bg))
		synctest.Wait()
		a.waitTable.mu.Lock()
		require.True(t, a.waitTable.names["a"].remoteWaiters)
		require.Equal(t, 1, a.waitTable.names["a"].streak)
		a.waitTable.mu.Unlock()
		pass(linger)
		quiet(t, a)
		require.NoError(t, gets(t, done).k.Release(bg))
		synctest.Wait()
	})
}

// The subscribers of a release do not include the Locker's own subscription, once that is confirmed
// on a majority of the nodes for all of the names.
func TestOnlyAConfirmedSubscriptionIsCountedAsOurOwn(t *testing.T) {
	_, l := fakes(t, 3)
	ws := l.waitTable
	require.Zero(t, ws.ownSubscribersLocked([]string{"a"}))
	for i, want := range []int{0, 0, 1, 1} {
		confirmed := make([]bool, 3)
		for n := range i {
			confirmed[n] = true
		}
		ws.channels["redlock:free:a"] = &releaseChannel{confirmed: confirmed}
		require.Equal(t, want, ws.ownSubscribersLocked([]string{"a"}))
		require.Zero(t, ws.ownSubscribersLocked([]string{"a", "b"}))
	}
}
