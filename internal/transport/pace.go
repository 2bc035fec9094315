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

// wait waits some milliseconds if the peer is silent, but not after dead is closed. received is how many replies came so far.
func (p *pace) wait(c clock.Clock, received int64, dead <-chan struct{}) {
	if p.flushes < silentFlushes || received != p.received {
		return
	}
	silent := c.Now().Sub(p.since)
	if silent < silentAfter {
		return
	}
	timer.Wait(c, min(silent/throttleShare, maxThrottle), dead)
}

// flushed counts a flush. A reply ends the series of those without one.
func (p *pace) flushed(c clock.Clock, received int64) {
	if received != p.received {
		*p = pace{received: received}
	}
	if p.flushes++; p.flushes == silentFlushes {
		p.since = c.Now()
	}
}
