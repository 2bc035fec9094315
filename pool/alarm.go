package pool

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// alarm is a timer that is made when it is set first, and reused. The zero value is not set. It has no lock of its
// own: pipeline.mu guards the alarms of a pipeline and of its connection.
type alarm struct{ timer clock.Timer }

// set has f run after d, and not when it was to run before. A run that has begun is not ended.
func (a *alarm) set(c clock.Clock, d time.Duration, f func()) {
	if a.timer == nil {
		a.timer = c.AfterFunc(d, f)
		return
	}
	a.timer.Reset(d)
}

// stop keeps f from running, unless that has begun.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
