package transport

import (
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
)

// checksPerTimeout is how many times the watchdog checks a connection within the hard timeout.
const checksPerTimeout = 4

// watchdog counts calls and replies, and ends a connection on which no reply came for the hard timeout (and up to
// a quarter more) while replies were due. It costs nothing per call: the timer is set again until a check finds no
// reply due.
type watchdog struct {
	started  bool         // set before the reader and the writer begin
	due      atomic.Int64 // calls that may have left the process; each gets one reply
	received atomic.Int64 // replies

	mu       sync.Mutex  // guards all below
	timer    clock.Timer // of check; nil before it is first set
	watching bool        // check will run
	seen     int64       // received, at the last check
	silent   int         // checks in a row without a reply
}

// Start has the connection watched, before its reader and its writer begin. From now on a reply without a call, or
// before it, ends the connection.
func (c *Conn) Start() {
	c.started = true
	if c.in != nil {
		c.in.onUnfinished = c.watch
	}
}

// expect notes the calls that were written, before the first byte leaves the process: a reply may come before the
// write returns.
func (c *Conn) expect() {
	c.due.Store(c.calls) // before watch: a check that does not see it leaves the timer to watch
	c.watch()
}

// watch makes sure that the connection is checked while a reply is due, or unfinished: the peer may also begin a
// reply to no call. The writer calls it before it writes, and the reader before it waits for the rest of a reply.
func (c *Conn) watch() {
	if !c.started {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.watching {
		c.watching, c.seen, c.silent = true, c.received.Load(), 0
		c.setTimerLocked()
	}
}

func (c *Conn) setTimerLocked() {
	d := c.settings.HardTimeout / checksPerTimeout
	if c.timer == nil {
		c.timer = c.settings.Clock.AfterFunc(d, c.check)
		return
	}
	c.timer.Reset(d)
}

// check is the timer's function.
func (c *Conn) check() {
	if c.isSilent() {
		c.End(ErrSilent)
	}
}

// isSilent makes one check, and reports whether the connection is to be ended. It sets the timer again while a reply
// is due.
func (c *Conn) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	received := c.received.Load()
	due := received != c.due.Load() || c.in != nil && c.in.unfinished.Load()
	if c.watching = due && !c.IsDead(); !c.watching {
		return false
	}
	c.silent++
	// Any reply since the last check shows that the peer is alive: the count begins again.
	if received != c.seen {
		c.seen, c.silent = received, 0
	}
	if c.silent >= checksPerTimeout {
		return true
	}
	c.setTimerLocked()
	return false
}

// unwatch stops the timer, after the reader and the writer have ended.
func (c *Conn) unwatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}
