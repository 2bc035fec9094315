package waiting

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// The bounds of a slot: the time that a waiter leaves to each process that goes before it.
const (
	minSlot = time.Millisecond
	maxSlot = 64 * time.Millisecond
)

// release is what the announcement of a release says. Like every announcement it is a hint.
type release struct {
	age     time.Duration // how long ago the holder had begun to wait; 0 if unknown
	waiters int           // how many processes listened; 0 if unknown
}

// parseRelease reads a message: the age in microseconds, and the number of subscribers. Numbers that are
// missing, negative or too large are taken for unknown.
func parseRelease(payload string) release {
	var r release
	age, waiters, _ := strings.Cut(payload, " ")
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

// turn decides how long after a release a process tries to acquire a name. Only the simulation uses it yet.
//
// Processes have no common queue. But each release says how long ago its holder had begun to wait, and
// how many processes listened. So each waiter knows about how many have waited for longer than itself,
// and leaves each of them one slot. Some of those may be gone. So the waiter also draws a number of
// slots, up to the number of waiters, and takes the smaller one. The zero value has heard nothing.
type turn struct {
	at      clock.Instant // the last release that said an age
	served  clock.Instant // when its holder had begun to wait
	longest time.Duration // about how long those wait whose turn it is
	waiters int           // as the last release said; 0: unknown
	guess   int           // how many that are, if unknown: it doubles when others are faster, and halves when not
	trip    time.Duration // about how long an attempt takes here
	slot    time.Duration
	// Of successive releases, on average: how much later the one, and how much later its holder had begun
	// to wait. Where many began to wait at the same time, the second hardly grows.
	apart, advanced float64
}

// hear records a release.
func (t *turn) hear(now clock.Instant, r release) {
	t.waiters = r.waiters
	if r.age == 0 {
		return
	}
	served := now.Add(-r.age)
	if t.at != 0 {
		t.apart += (float64(now.Sub(t.at)) - t.apart) / 8
		t.advanced += (float64(served.Sub(t.served)) - t.advanced) / 8
	}
	t.at, t.served = now, served
	switch d := r.age - t.longest; {
	case t.longest == 0:
		t.longest = r.age
	case d > 0:
		t.longest += d / 2
	default:
		t.longest += d / 16
	}
}

// delay returns how long after a release a process waits that has waited for so long. drawn are two random
// numbers in [0, 1).
func (t *turn) delay(waited time.Duration, drawn [2]float64) time.Duration {
	waiters := float64(cmp.Or(t.waiters, t.guess))
	if waiters <= 1 {
		return 0 // no other process waits
	}
	rank := 1 + drawn[0]*waiters
	if t.longest > 0 {
		older := waiters*(1-float64(waited)/float64(t.longest)) - 1 // the holder that releases is one of them
		if older < 0.5 {
			older = drawn[1] * waiters * t.crowd()
		}
		rank = min(rank, older)
	}
	return time.Duration(rank * float64(max(t.slot, t.least())))
}

// least returns the shortest slot: an attempt is over before the next one begins.
func (t *turn) least() time.Duration { return min(max(minSlot, t.trip), maxTrip) }

// took records how long an attempt took.
func (t *turn) took(d time.Duration) { t.trip += (d - t.trip) / 8 }

// maxTrip bounds the slots of a process that is far away.
const maxTrip = 4 * minSlot

// afterOwn returns how long this process waits after its own release: it leaves at least one slot.
func (t *turn) afterOwn(drawn [2]float64) time.Duration {
	return max(t.slot, t.least(), t.delay(0, drawn))
}

// crowd returns which part of the waiters may have waited as long as the longest.
func (t *turn) crowd() float64 {
	if t.apart == 0 {
		return 1
	}
	return min(1, max(0, 1-2*t.advanced/t.apart))
}

// again records that this process acquired the name again although it let others go first. They are gone,
// or they are too far away for so short a slot.
func (t *turn) again() { t.slot = min(maxSlot, 2*max(t.slot, minSlot)) }

// others records that another process had its turn.
func (t *turn) others() { t.slot -= t.slot / 8 }

// maxGuess bounds the guess of how many processes wait.
const maxGuess = 16

// refused records that another process was faster.
func (t *turn) refused() { t.guess = min(2*max(t.guess, 1), maxGuess) }

// granted records that no other process was faster.
func (t *turn) granted() { t.guess /= 2 }
