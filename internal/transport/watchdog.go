package transport

import (
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/timer"
)

// checksPerTimeout is how many times the watchdog checks a connection within the hard timeout.
const checksPerTimeout = 4

// watchdog counts calls and replies, and ends a connection on which no reply came for the hard timeout (and up to
// a quarter more) while replies were due. It costs nothing per call: the timer is set again until a check finds no
// reply due.
type watchdog struct {
	conn     *Conn
	started  bool         // set before the reader and the writer begin
	due      atomic.Int64 // calls that may have left the process; each gets one reply
	received atomic.Int64 // replies

	mu       sync.Mutex  // guards all below
	timer    timer.Alarm // of check
	watching bool        // check will run
	seen     int64       // received, at the last check
	silent   int         // checks in a row without a reply
}

// Start has the connection watched, before its reader and its writer begin. From now on a reply without a call, or
// before it, ends the connection.
func (w *watchdog) Start() {
	w.started = true
	if in := w.conn.in; in != nil {
		in.onUnfinished = w.watch
	}
}

// expect notes how many calls were written, before the first byte leaves the process: a reply may come before the
// write returns.
func (w *watchdog) expect(calls int64) {
	w.due.Store(calls) // before watch: a check that does not see it leaves the timer to watch
	w.watch()
}

// watch makes sure that the connection is checked while a reply is due, or unfinished: the peer may also begin a
// reply to no call. The writer calls it before it writes, and the reader before it waits for the rest of a reply.
func (w *watchdog) watch() {
	if !w.started {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.watching {
		w.watching, w.seen, w.silent = true, w.received.Load(), 0
		w.setTimerLocked()
	}
}

func (w *watchdog) setTimerLocked() {
	set := w.conn.settings
	w.timer.Set(set.Clock, set.HardTimeout/checksPerTimeout, w.check)
}

// check is the timer's function.
func (w *watchdog) check() {
	if w.isSilent() {
		w.conn.End(ErrSilent)
	}
}

// isSilent makes one check, and reports whether the connection is to be ended. It sets the timer again while a reply
// is due.
func (w *watchdog) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	received := w.received.Load() // before it looks for one that is owed, so that one that comes meanwhile counts as new
	if w.watching = w.owesReply() && !w.conn.IsDead(); !w.watching {
		return false
	}
	w.silent++
	// Any reply since the last check shows that the peer is alive: the count begins again.
	if received != w.seen {
		w.seen, w.silent = received, 0
	}
	if w.silent >= checksPerTimeout {
		return true
	}
	w.setTimerLocked()
	return false
}

// owesReply reports whether a reply is due, or unfinished.
func (w *watchdog) owesReply() bool {
	in := w.conn.in
	return w.received.Load() != w.due.Load() || in != nil && in.unfinished.Load()
}

// unwatch stops the timer, after the reader and the writer have ended.
func (w *watchdog) unwatch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}
