package clock

import "time"

// Clock tells elapsed time and runs functions later. Implementations are safe
// for concurrent use.
type Clock interface {
	// Now returns the present instant. It never goes back between two calls of
	// which one happens before the other (only [Skewed], told to, breaks that).
	// It does not block and does not allocate.
	Now() Instant

	// AfterFunc runs f once on a goroutine of its own, not before d has passed
	// by the runtime's timers. These stand still while the machine is
	// suspended, so f may run late by this clock, even by hours, and, where the
	// clock is the slower one, early: f looks at Now and decides by that.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is what [Clock.AfterFunc] returns; *[time.Timer] is one. It is safe
// for concurrent use.
type Timer interface {
	// Stop reports whether it kept f from running. When it returns false, f
	// has been started (and may still be running) or the timer was stopped
	// before.
	Stop() bool

	// Reset makes the timer run f after d from now, whether it was still
	// waiting (then it returns true), stopped, or has run f. When it returns
	// false a run of f begun earlier may still be under way.
	Reset(d time.Duration) bool
}

// After returns a channel that is closed when d has passed by c's timers, for
// use in a select, and a function that releases the timer. Stop may be called
// at any time, any number of times, from any goroutine; a channel whose timer
// was stopped in time is never closed. As with [Clock.AfterFunc] the channel
// may close late, and who received from it looks at Now.
func After(c Clock, d time.Duration) (fired <-chan struct{}, stop func()) {
	ch := make(chan struct{})
	t := c.AfterFunc(d, func() { close(ch) }) // once: only this function has the timer
	return ch, func() { t.Stop() }
}
