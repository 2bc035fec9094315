package timer

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// After returns a channel that is closed after d by c's timers, for use in a select, and a function
// that releases the timer. stop may be called at any time, repeatedly and from any goroutine. If it
// stops the timer before it fires, the channel is never closed. As with [clock.Clock.AfterFunc] the
// channel may be closed late, so the receiver reads Now.
func After(c clock.Clock, d time.Duration) (fired <-chan struct{}, stop func()) {
	ch := make(chan struct{})
	t := c.AfterFunc(d, func() { close(ch) }) // once: only this function has the timer
	return ch, func() { t.Stop() }
}

// Wait waits for d by c's timers, or until done is closed.
func Wait(c clock.Clock, d time.Duration, done <-chan struct{}) {
	over, stop := After(c, d)
	defer stop()
	select {
	case <-over:
	case <-done:
	}
}
