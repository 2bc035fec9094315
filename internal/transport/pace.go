package transport

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// After silentAfter without a reply, the writer waits before each flush: the silence divided by throttleShare, and
// at most maxThrottle. To a frozen peer every few calls would otherwise cost a system call in vain. What is given
// up during the wait is never sent. A distant peer exceeds silentAfter only before its first reply.
const (
	silentFlushes = 3 // in a row without a reply: a single caller has at most two calls on the way
	silentAfter   = 50 * time.Millisecond
	throttleShare = 50
	maxThrottle   = 10 * time.Millisecond
)

// pace is the state of Pace, which the writer alone uses.
type pace struct {
	received int64         // replies, at the last flush
	flushes  int           // in a row without a reply in between
	since    clock.Instant // when flushes reached silentFlushes
}

// Pace waits some milliseconds if the peer is silent. The writer calls it before it chooses what to send.
func (c *Conn) Pace() {
	if c.pace.flushes < silentFlushes || c.received.Load() != c.pace.received {
		return
	}
	silent := c.settings.Clock.Now().Sub(c.pace.since)
	if silent < silentAfter {
		return
	}
	over, stop := timer.After(c.settings.Clock, min(silent/throttleShare, maxThrottle))
	defer stop()
	select {
	case <-over:
	case <-c.dead:
	}
}

// noteFlush counts a flush. A reply ends the series of those without one.
func (c *Conn) noteFlush() {
	if n := c.received.Load(); n != c.pace.received {
		c.pace = pace{received: n}
	}
	if c.pace.flushes++; c.pace.flushes == silentFlushes {
		c.pace.since = c.settings.Clock.Now()
	}
}
