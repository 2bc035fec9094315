package waiting

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// Any client with the right to publish can send any message. A number that is out of bounds counts as unknown.
func TestAMessageIsReadWithinBounds(t *testing.T) {
	unknown := release{}
	for payload, want := range map[string]release{
		"1500 3":                          {age: 1500 * time.Microsecond, waiters: 3},
		"0 3":                             {age: 0, waiters: 3},
		"1500":                            {age: 1500 * time.Microsecond, waiters: 0},
		"":                                unknown,
		" ":                               unknown,
		"-1 -1":                           unknown,
		"nan inf":                         unknown,
		"1e3 1e3":                         unknown,
		"9223372036854775807 0":           unknown,
		"99999999999999999999 3.5":        unknown,
		"1 " + strconv.Itoa(maxWaiters+1): {age: time.Microsecond, waiters: 0},
		"1 2 3":                           {age: time.Microsecond, waiters: 2, left: 3*time.Millisecond + rounding},
		"1 2 -3":                          {age: time.Microsecond, waiters: 2},
		"1 2 0":                           {age: time.Microsecond, waiters: 2},
		"1 2 3 4":                         {age: time.Microsecond, waiters: 2, left: 3*time.Millisecond + rounding}, // of a later version
		"1 2 31536000000":                 {age: time.Microsecond, waiters: 2},                                      // a year
		"  3":                             {left: 3*time.Millisecond + rounding},
	} {
		require.Equal(t, want, parseRelease(payload), "%q", payload)
	}
}

// queued returns the turn of a process that has heard the releases of others, one every 5 ms. Each of their
// holders had begun to wait later than the one before, by step, and the last one had waited for 100 ms.
func queued(step time.Duration, waiters int) *turn {
	var tr turn
	const releases = 2000
	for i := range releases {
		age := 100*time.Millisecond - time.Duration(releases-1-i)*(5*time.Millisecond-step)
		if age > 0 {
			tr.hear(clock.Instant(time.Duration(i+1)*5*time.Millisecond), release{age: age, waiters: waiters})
		}
	}
	return &tr
}

func TestTheOneThatHasWaitedForLongestTriesAtOnceAndTheOthersInTheirTurn(t *testing.T) {
	tr := queued(5*time.Millisecond, 20)
	last := [2]float64{0.999, 0.999}
	require.Zero(t, delayOf(tr, 100*time.Millisecond, last))
	require.Zero(t, delayOf(tr, time.Hour, last))
	require.InDelta(t, 3*minSlot, delayOf(tr, 95*time.Millisecond, last), 2)
	require.InDelta(t, 7*minSlot, delayOf(tr, 90*time.Millisecond, last), 2)
	few := queued(5*time.Millisecond, 5)
	require.Zero(t, delayOf(few, 100*time.Millisecond, last))
	require.InDelta(t, minSlot, delayOf(few, 60*time.Millisecond, last), 2)
	require.InDelta(t, 3*minSlot, delayOf(few, 20*time.Millisecond, last), 2)
}

// Where many wait, only those listen that have waited for three quarters of the longest wait.
func TestWhoIsFarFromItsTurnRests(t *testing.T) {
	tr := queued(5*time.Millisecond, 20)
	require.InDelta(t, 75*time.Millisecond, tr.rest(0, [2]float64{}), 1)
	require.InDelta(t, 25*time.Millisecond, tr.rest(50*time.Millisecond, [2]float64{}), 1)
	require.Zero(t, tr.rest(60*time.Millisecond, [2]float64{}), "not for so short a time")
	require.Zero(t, tr.rest(time.Hour, [2]float64{}))
	require.Zero(t, queued(5*time.Millisecond, crowd-1).rest(0, [2]float64{}))
	require.Zero(t, (&turn{waiters: 1000, before: 1000}).rest(0, [2]float64{}), "no release has said an age")
	require.Zero(t, (&turn{waiters: 1000, longest: time.Hour}).rest(0, [2]float64{}), "one message alone may be wrong")
	require.Equal(t, maxRest*3/4, (&turn{waiters: 1000, before: 1000, longest: time.Hour}).rest(0, [2]float64{}))
	require.Equal(t, maxRest*7/8, (&turn{waiters: 1000, before: 1000, longest: time.Hour}).rest(0, [2]float64{0, 0.5}), "not all listen again at once")
	require.Equal(t, maxRest, delayOf(&turn{waiters: maxWaiters}, 0, [2]float64{0.9, 0}))
}

// Whoever rests hears of no release for a while.
func TestARestSaysNothingOfThePausesBetweenReleases(t *testing.T) {
	tr := queued(5*time.Millisecond, 20)
	gap, heard := tr.gap, tr.heard
	tr.missed(time.Second / 2)
	tr.hear(heard.Add(time.Second/2), release{age: 100 * time.Millisecond, waiters: 20})
	require.Equal(t, gap, tr.gap)
	tr.hear(tr.heard.Add(gap*3/2), release{age: 100 * time.Millisecond, waiters: 20})
	require.Equal(t, gap+gap/16, tr.gap)
	gap = tr.gap
	tr.hear(tr.heard.Add(time.Minute), release{age: 100 * time.Millisecond, waiters: 20})
	require.Equal(t, gap+gap/8, tr.gap, "one pause says little")
}

// No message alone says much, and several at the same time say no more: no wait grows faster than time.
func TestTheLongestWaitGrowsWithTime(t *testing.T) {
	tr := queued(5*time.Millisecond, 20)
	for range 20 {
		tr.hear(tr.heard.Add(time.Millisecond), release{age: maxAge, waiters: 20})
	}
	require.Equal(t, 260*time.Millisecond, tr.longest.Round(time.Millisecond))
	tr.hear(tr.heard.Add(time.Second), release{age: maxAge, waiters: 20})
	require.Equal(t, 520*time.Millisecond, tr.longest.Round(time.Millisecond), "twice as much at most")
}

// Those before it may be gone. So each waiter also draws a time, and the first of those comes soon.
func TestAWaiterTriesAtTheLatestInTheTimeThatItDraws(t *testing.T) {
	tr := queued(5*time.Millisecond, 20)
	require.Equal(t, minSlot, delayOf(tr, 0, [2]float64{0, 0}))
	require.Equal(t, 11*minSlot, delayOf(tr, 0, [2]float64{0.5, 0}))
	require.Zero(t, delayOf(new(turn), 0, [2]float64{0.5, 0}), "it knows of no other process")
	require.Equal(t, minSlot, new(turn).afterOwn([2]float64{}), "after its own release it leaves one slot")
	require.Equal(t, 5*minSlot, delayOf(&turn{waiters: 8}, time.Hour, [2]float64{0.5, 0}))
}

// A thousand waiters that came together have all waited equally long: none of them may try at once.
func TestWhereManyHaveWaitedEquallyLongEachDrawsItsTime(t *testing.T) {
	tr := queued(0, 1000)
	require.InDelta(t, float64(500*minSlot), float64(delayOf(tr, 100*time.Millisecond, [2]float64{0.9, 0.5})), float64(20*minSlot))
}

// The right to count subscribers may be missing.
func TestWhoIsRefusedGuessesThatMoreWait(t *testing.T) {
	var tr turn
	last := [2]float64{0.5, 0}
	require.Zero(t, delayOf(&tr, 0, last))
	for n := 1; n < 12; n++ {
		tr.refused()
		require.Equal(t, minSlot+time.Duration(min(1<<n, minBound))*minSlot/2, delayOf(&tr, 0, last), n)
	}
	for range 12 {
		tr.granted()
	}
	require.Zero(t, delayOf(&tr, 0, last))

	many := queued(5*time.Millisecond, 0) // the longest wait is 20 times as long as a hold
	for range 12 {
		many.refused()
	}
	require.InDelta(t, 20, many.guess, 1, "as many as had a turn in the longest wait")
	forged := turn{longest: maxAge, gap: 1}
	for range 100 {
		forged.refused()
	}
	require.Equal(t, maxWaiters, forged.guess)
}

// After a long hold nothing is known, and many may wait.
func TestWhereNobodyIsCountedNotAllTryAtOnceAfterALongHold(t *testing.T) {
	var tr turn
	tr.hear(1, release{})
	require.Zero(t, delayOf(&tr, time.Millisecond, [2]float64{0.5}))
	require.Equal(t, minSlot+firstGuess*minSlot/2, delayOf(&tr, time.Minute, [2]float64{0.5}))
	tr.hear(2, release{waiters: 1})
	require.Zero(t, delayOf(&tr, time.Minute, [2]float64{0.5}), "it is known")
}

// An attempt is to be over before the next one begins, but one from far away may not delay all.
func TestASlotIsAsLongAsARoundTrip(t *testing.T) {
	for trip, slot := range map[time.Duration]time.Duration{0: minSlot, 3 * minSlot: 3 * minSlot, time.Second: maxTrip} {
		var tr turn
		for range 200 {
			tr.took(trip)
		}
		require.InDelta(t, slot, tr.least(), float64(time.Microsecond))
	}
}

// A process that always wins is never refused, and must know nevertheless how far the nodes are.
func TestAnAcquisitionShowsHowFarTheNodesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time a pause between two readings of the clock would count
		table, _ := newTable()
		for range 200 {
			h := &Hold{Names: []string{"a"}, Began: table.now().Add(-3 * minSlot)}
			table.Acquired(h, nil)
			table.names["a"].holder = nil
		}
		require.InDelta(t, 3*minSlot, table.names["a"].trip, float64(minSlot)/4)
	})
}

// Ages alone do not show it: of three processes, two that take turns have always waited for as long as the other.
func TestAProcessThatHasHadMoreThanItsShareLeavesTheOthersMoreTime(t *testing.T) {
	tr := turn{waiters: 2, before: 2}
	none := [2]float64{}
	var slots []time.Duration
	for range 12 { // another one has every second turn, and the third none
		tr.ownTurn()
		require.Equal(t, delayOf(&tr, 0, none)+tr.trip+max(minSlot, min(tr.slot(), maxTrip)), tr.afterOwn(none))
		tr.otherTurns(1)
		require.Equal(t, max(minSlot, tr.slot()), delayOf(&tr, time.Hour, none), "also after a release of another one")
		slots = append(slots, tr.slot().Truncate(minSlot)/minSlot)
	}
	require.Equal(t, []time.Duration{0, 0, 0, 0, 1, 3, 6, 13, 26, 51, 64, 64}, slots)
	for range 40 {
		tr.otherTurns(1)
	}
	require.Zero(t, tr.slot())
	tr.ownTurn()
	tr.ownTurn()
	tr.gap = 5 * time.Millisecond
	tr.missed(10 * time.Millisecond)
	require.InDelta(t, 1, tr.ahead, 0.1)

	fair := turn{waiters: 2, before: 2, ahead: maxAhead}
	for range 200 {
		fair.ownTurn()
		fair.otherTurns(2)
	}
	require.Zero(t, fair.slot(), "what it was ahead is over")

	forged := turn{waiters: maxWaiters, before: 2, ahead: maxAhead}
	forged.otherTurns(4)
	require.InDelta(t, maxAhead-1, forged.ahead, 0.1, "no message alone says much")
}

// delayOf returns how long a process waits before it tries, if it does.
func delayOf(t *turn, waited time.Duration, drawn [2]float64) time.Duration {
	d, _ := t.delay(waited, drawn)
	return d
}
