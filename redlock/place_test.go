package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// A row ends after 16 holds, or with the hold that ends after 50 ms, and then it is the
// turn of others who are known to wait.
func TestARowEndsByNumberAndByTime(t *testing.T) {
	p := place{others: true}
	p.begin(0, time.Millisecond)
	for n := range turnMost {
		require.Equal(t, n == turnMost-1, p.end(clock.Instant(n)))
		require.Equal(t, n == turnMost-1, p.due)
		p.begin(clock.Instant(n), time.Millisecond)
	}
	p = place{others: true}
	p.begin(0, time.Millisecond)
	require.False(t, p.end(clock.Instant(turnLong-1)))
	p.begin(clock.Instant(turnLong-1), time.Millisecond)
	require.True(t, p.end(clock.Instant(turnLong)))
	require.True(t, p.due)
}

// What ends a row early: a refusal, and a gap in which others had the time to come.
func TestWhatLetsOthersInEndsARow(t *testing.T) {
	var p place
	p.begin(0, time.Millisecond)
	p.end(0)
	p.begin(clock.Instant(time.Millisecond-1), time.Millisecond)
	require.Equal(t, 1, p.turns)
	p.begin(clock.Instant(time.Millisecond), time.Millisecond)
	require.Zero(t, p.turns)
	p.end(0)
	p.due, p.vain = true, 2
	p.outside(false)
	require.Zero(t, p.turns)
	require.False(t, p.due)
	require.Equal(t, 2, p.vain)
	p.outside(true)
	require.Zero(t, p.vain)
}

// Who lets others go first does so for twice as long each time, less what has passed
// since the name is free.
func TestLettingOthersGoFirstTakesLongerEachTime(t *testing.T) {
	p := place{freed: clock.Instant(time.Second)}
	now := p.freed.Add(time.Millisecond)
	require.Zero(t, p.yield(now, 3*time.Millisecond), "it is not their turn")
	for n := range 2 * vainMost {
		p.due = true
		require.Equal(t, 3*time.Millisecond<<min(n, vainMost-1)-time.Millisecond, p.yield(now, 3*time.Millisecond))
		require.False(t, p.due)
	}
	p.due, p.vain = true, 0
	require.Zero(t, p.yield(p.freed.Add(time.Second), 3*time.Millisecond))
	require.Zero(t, p.vain)
}

// A name's place is kept for a second where others wait, and then nothing is left of it.
func TestAPlaceIsKeptWhereOthersWait(t *testing.T) {
	inBubble(t, 3, func(fl *fleet) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		require.NoError(t, k.Release(bg))
		synctest.Wait()
		a.waiters.mu.Lock()
		require.True(t, a.waiters.names["a"].others)
		require.Equal(t, 1, a.waiters.names["a"].turns)
		a.waiters.mu.Unlock()
		pass(lingering)
		quiet(t, a)
		require.NoError(t, gets(t, done).k.Release(bg))
		synctest.Wait()
	})
}

// Our own subscription is left out of those who hear a release, once it stands on a
// majority of the nodes, and for all of the names.
func TestOnlyASubscriptionThatStandsIsCountedAsOurOwn(t *testing.T) {
	_, l := fakes(t, 3)
	ws := l.waiters
	require.Zero(t, ws.own([]string{"a"}))
	for i, want := range []int{0, 0, 1, 1} {
		stands := make([]bool, 3)
		for n := range i {
			stands[n] = true
		}
		ws.topics["redlock:free:a"] = &topic{stands: stands}
		require.Equal(t, want, ws.own([]string{"a"}))
		require.Zero(t, ws.own([]string{"a", "b"}))
	}
}
