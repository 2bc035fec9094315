package clock

import "time"

// Clock returns elapsed time and runs functions later. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the present instant. It never goes back between two calls if one happens before
	// the other. Only a clock for tests can go back (package clocktest). Now neither blocks nor allocates.
	Now() Instant

	// AfterFunc runs f once on a goroutine of its own, after d has passed by the runtime's timers.
	// These do not advance while the machine is suspended, so f may run late by this clock, even by
	// hours. If this clock is slower than the timers, f may run early. f must read Now to decide
	// what is due.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is the result of [Clock.AfterFunc]. *[time.Timer] implements it. It is safe for concurrent
// use.
type Timer interface {
	// Stop prevents f from running, and reports whether it did. If it returns false, f was started
	// and may still be running, or the timer was stopped before.
	Stop() bool

	// Reset makes the timer run f after d from now. It returns true if the timer was still waiting,
	// and false if it was stopped or had fired. After false, an earlier run of f may still be in
	// progress.
	Reset(d time.Duration) bool
}
