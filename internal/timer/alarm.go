package timer

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Alarm is one timer of a clock that is made when it is set first, and reused. The zero value is not set. It is not
// safe for concurrent use: a mutex of its owner guards it.
type Alarm struct{ timer clock.Timer }

// Set has f run after d, and not when it was to run before. A run that has begun is not ended.
func (a *Alarm) Set(c clock.Clock, d time.Duration, f func()) {
	if a.timer == nil {
		a.timer = c.AfterFunc(d, f)
		return
	}
	a.timer.Reset(d)
}

// Stop keeps f from running, unless that has begun.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
