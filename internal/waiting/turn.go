package waiting

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// release is what the announcement of a release says. Like every announcement it is a hint.
type release struct {
	age     time.Duration // how long the holder had waited; 0 if unknown
	waiters int           // how many processes listened; 0 if unknown
	left    time.Duration // after what time the keys are gone; 0: they are deleted
}

// parseRelease reads a message: the age in microseconds, the number of subscribers, and what is left of the keys in
// milliseconds. Numbers that are missing, negative or too large are taken for unknown.
func parseRelease(payload string) release {
	var r release
	age, rest, _ := strings.Cut(payload, " ")
	waiters, rest, _ := strings.Cut(rest, " ")
	left, _, _ := strings.Cut(rest, " ") // a later version may send more
	if n, err := strconv.ParseInt(left, 10, 64); err == nil && n > 0 && n < int64(maxAge/time.Millisecond) {
		r.left = time.Duration(n)*time.Millisecond + rounding
	}
	if n, err := strconv.ParseInt(age, 10, 64); err == nil && n > 0 && n < int64(maxAge/time.Microsecond) {
		r.age = time.Duration(n) * time.Microsecond
	}
	if n, err := strconv.Atoi(waiters); err == nil && n > 0 && n <= maxWaiters {
		r.waiters = n
	}
	return r
}

// A client of this library sends no larger numbers.
const (
	maxAge     = 365 * 24 * time.Hour
	maxWaiters = 100_000
)

// turn decides how long after a release a process tries to acquire a name.
//
// Processes have no common queue. But each release says how long its holder had waited, and how many
// processes listened. So each waiter knows about how many have waited for longer than itself,
// and leaves each of them one slot. Some of those may be gone. So the waiter also draws a number of
// slots, up to the number of waiters, and takes the smaller one. Where many wait, those do not listen that are
// far from their turn. The zero value has heard nothing.
type turn struct {
	longest time.Duration // about how long those wait whose turn it is
	waiters int           // as the last release said; 0: unknown
	before  int           // as the one before said
	guess   int           // how many that are, if unknown: it doubles when others are faster, and halves when not
	trip    time.Duration // about how long an attempt takes here
	heard   clock.Instant // the last release
	rested  bool          // it has rested since then
	gap     time.Duration // about how long it is from one release to the next
	ahead   float64       // how many turns this process had more than its share

	// Between two releases, apart by about one wait:
	at     clock.Instant // the first of them
	served clock.Instant // as long before it as its holder had waited
	burst  float64       // which part of those that wait began at the same time: the holder of the second had waited for longer
}

// hear records a release.
func (t *turn) hear(now clock.Instant, r release) {
	t.before, t.waiters = t.waiters, r.waiters
	since, releases := now.Sub(t.heard), 1.0 // from the one that it heard before, to this one: it may have rested
	if t.gap > 0 {
		releases = max(1, float64(since)/float64(t.gap))
	}
	switch {
	case t.heard == 0 || t.rested:
	case t.gap == 0:
		t.gap = since
	default:
		t.gap += min(since-t.gap, t.gap) / 8 // a long hold now and then says little
	}
	t.heard, t.rested = now, false
	if r.age == 0 {
		return
	}
	served := now.Add(-r.age)
	switch apart := now.Sub(t.at); {
	case t.at == 0:
		t.at, t.served, t.burst = now, served, 1
	case apart >= t.longest:
		part := 1 - 2*float64(served.Sub(t.served))/float64(apart)
		t.burst += (min(1, max(0, part)) - t.burst) / 2
		t.at, t.served = now, served
	}
	switch d := r.age - t.longest; {
	case t.longest == 0:
		t.longest = r.age
	case d > 0:
		t.longest += min(d/2, t.longest, 8*since) // no message alone says much, and no wait grows faster than time
	default:
		t.longest += time.Duration(float64(d) * min(1, releases/16)) // what was before a rest says little after it
	}
}

// delay returns how long after a release a process tries that has waited for so long, and whether it does. drawn are two
// random numbers in [0, 1).
func (t *turn) delay(waited time.Duration, drawn [2]float64) (d time.Duration, tries bool) {
	waiters := float64(cmp.Or(t.waiters, t.guess))
	if t.waiters == 0 && waited >= maxRest {
		waiters = max(waiters, firstGuess)
	}
	if waiters <= 1 {
		return t.slot(), true // no other process waits
	}
	rank := 1 + drawn[0]*waiters
	if t.longest > 0 {
		before := 1 - float64(waited)/float64(t.longest)
		if t.waiters >= crowd {
			before /= 1 - t.near() // only the nearest listen
		}
		older := waiters*before - 1 // the holder that releases is one of them
		if older < 0.5 {
			older = drawn[1] * waiters * t.burst
		}
		rank = min(rank, older)
	}
	return min(maxRest, max(t.slot(), time.Duration(rank*float64(t.least())))), rank <= mostTry
}

// least returns the shortest slot: an attempt is over before the next one begins.
func (t *turn) least() time.Duration { return min(max(minSlot, t.trip), maxTrip) }

// took records how long an attempt took.
func (t *turn) took(d time.Duration) { t.trip += (d - t.trip) / 8 }

// maxTrip bounds the slots of a process that is far away.
const maxTrip = 4 * minSlot

// afterOwn returns how long this process waits after its own release began: longer than it would after another's, because
// others may be as far ahead, and farther away, and hear of it when this process is answered.
func (t *turn) afterOwn(drawn [2]float64) time.Duration {
	d, _ := t.delay(0, drawn)
	return d + t.trip + max(t.least(), min(t.slot(), maxTrip))
}

// ownTurn records a turn of this process.
func (t *turn) ownTurn() { t.ahead = min(t.ahead+1, maxAhead) }

// otherTurns records turns of other processes. As many as wait are worth one of this process, and a little more:
// what a process is ahead by chance must not remain.
func (t *turn) otherTurns(n float64) { t.ahead = max(0, t.ahead-n*33/32/float64(max(1, t.known()))) }

// missed records that other processes have turns of which this one does not hear, for so long.
func (t *turn) missed(d time.Duration) {
	t.rested = true
	if t.gap > 0 {
		t.otherTurns(float64(d) / float64(t.gap))
	}
}

// slot returns what a process that is ahead leaves to others, which may be far away: four times as much for each
// turn. It is nothing for one that is as little ahead as chance makes it.
func (t *turn) slot() time.Duration {
	if t.ahead < 2 {
		return 0
	}
	return min(maxSlot, time.Duration(math.Exp2(2*(t.ahead-2))*float64(minSlot)))
}

// maxAhead bounds what a process has to make up for. It is a turn more than the longest slot needs.
const maxAhead = 6

// known returns how many processes wait. No message alone says much.
func (t *turn) known() int { return min(t.waiters, 2*t.before) }

// After a long wait a process guesses that some others wait: not all may try at once. Up to minBound the guess grows
// in any case.
const (
	firstGuess = 8
	minBound   = 16
)

// refused records that another process was faster. No more processes wait than had a turn in the longest wait.
func (t *turn) refused() {
	bound := minBound
	if t.gap > 0 {
		bound = max(bound, int(min(maxWaiters, t.longest/t.gap)))
	}
	t.guess = min(2*max(t.guess, 1), bound)
}

// granted records that no other process was faster.
func (t *turn) granted() { t.guess /= 2 }

// Where so many processes listen, only those do that have waited for a part of the longest wait, at least leastNear: others
// are not woken for nothing.
const (
	crowd     = 8
	leastNear = 0.75
)

// listeners returns how many processes shall listen where many wait. If a name is seldom released, that costs little.
func (t *turn) listeners() float64 { return max(2*crowd, float64(t.gap/time.Millisecond)) }

// near returns the part of the longest wait for which a process has waited when it listens. As many processes wait as have
// turns in the longest wait.
func (t *turn) near() float64 {
	if t.gap == 0 {
		return leastNear
	}
	return max(leastNear, 1-t.listeners()*float64(t.gap)/float64(t.longest))
}

// At most about so many processes try after a release. After a hold that takes longer than their slots all others would do so
// in vain. If none of these comes, a poll finds that the name is free.
const mostTry = 2 * crowd

// The bounds of a rest. Not to listen for a shorter time costs more than to listen.
const (
	minRest = 20 * time.Millisecond
	maxRest = time.Second
)

// rest returns for how long a process that has waited for so long need not listen. drawn are two random numbers
// in [0, 1). About as many processes as are a crowd go on listening, whatever the others have heard. If far too many listen, as when
// all began to wait at the same time, those rest too whose turn is near.
func (t *turn) rest(waited time.Duration, drawn [2]float64) time.Duration {
	waiters := float64(t.known())
	if drawn[0]*waiters >= waiters-crowd {
		return 0
	}
	d := time.Duration(t.near()*float64(t.longest)) - waited
	if d <= 0 && waiters > 2*t.listeners() {
		d = time.Duration(drawn[1] * (waiters - crowd) * float64(t.gap)) // in that time all have their turns
	}
	switch {
	case d < minRest:
		return 0
	case d > maxRest:
		return maxRest*3/4 + time.Duration(drawn[1]*float64(maxRest/4)) // not all subscribe again at once
	}
	return d
}
