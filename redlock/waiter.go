package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// waiter is a contender for a lock, queued or at the head. It is part of its request, so that a
// request that does not wait allocates nothing.
type waiter struct {
	l    *Locker
	ctx  context.Context // may be the user's, so only the waiter's own goroutine calls it
	done <-chan struct{} // of ctx
	req  *request

	// Guarded by waitTable.mu:
	atHead           bool // it is at the head of its queues, and registered in the waitTable
	state            waiterState
	handoff          *Lock // an attempt that was begun for it
	woken            wakeReason
	wake             chan struct{} // of capacity 1; made on the first park
	channels         []*releaseChannel
	subscribedBefore bool // it has subscribed before its first attempt and has not waited since
	announced        int  // nodes that announced a release since the last clearSignals
	announcedBy      []bool

	alarm alarm.Alarm   // fires soon after the first announcement
	quiet clock.Instant // until then announcements do not wake it: earlier ones were fruitless
	poll  *keyPoll      // in flight

	// Used only by the waiter's own goroutine:
	sightings []sighting // by node; made on first use
	last      error      // error of the last attempt
	reason    wakeReason // why it made the last attempt
	tokens    string     // that held the names after the last attempt
	vainPolls int        // successive announcements after which the same tokens held the names
	renewed   bool       // they also held them after an expiry, so their holder extends them
}

// waiterState is the state of a waiter with regard to handoffs.
type waiterState uint8

const (
	running   waiterState = iota // it makes attempts itself, or has left
	parked                       // it can receive a handoff
	receiving                    // it is receiving a handoff
)

// run makes attempts until one succeeds, and returns their number.
func (v *waiter) run() (k *Lock, attempts int, err error) {
	l, w, ctx := v.l, v.req, v.ctx
	pause := backoff{min: l.set.minBackoff, max: l.set.maxBackoff}
	v.last = errQueued
	given, err := v.waitForTurn(l.set.minBackoff)
	for n := 1; err == nil; n++ {
		if n > 1 || given != nil { // before the first attempt there is no signal to clear
			v.clearSignals()
		}
		k, seen, lost := l.attempt(ctx, w, l.now(), given)
		if lost == nil {
			return k, n, nil
		}
		if ctx.Err() != nil && n > 1 {
			// An attempt that was cut short, or its query, has seen less than those before it.
			break
		}
		if v.last = lost; l.permanent(w, lost) {
			return nil, n, lost
		}
		l.traceWaiting(w, n, lost)
		given, err = v.waitForRelease(seen, &pause, seen.took)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, 0, l.waitError(w, err, v.last)
}

// enqueue puts the waiter at the end of its queues.
func (v *waiter) enqueue(ctx context.Context, l *Locker, w *request) {
	v.l, v.ctx, v.done, v.req = l, ctx, ctx.Done(), w
	if l.queue.Enter(&w.ticket, w.names, v) {
		v.OnHead()
	}
}

// OnHead registers the waiter as the head of its names, so that it can receive a handoff. The
// waiter before it calls OnHead when it leaves the queue. That waiter may hold the lock by then and
// release it at once. The handoff does not depend on this waiter's goroutine having run.
func (v *waiter) OnHead() {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.atHead = true
	held := false
	for _, name := range v.req.names {
		p := ws.getOrCreateLocked(name)
		p.head = v
		held = held || p.holder != nil
	}
	if !held {
		v.wakeForLocked(byHandoff)
	}
}

// dequeue removes the waiter from its queues, at any position, and lets the next one advance. It
// leaves the queue first, because until then OnHead may still register it.
func (v *waiter) dequeue() {
	v.l.queue.Leave(&v.req.ticket)
	ws := v.l.waitTable
	ws.mu.Lock()
	for _, name := range v.req.names {
		if p := ws.names[name]; p != nil && p.head == v {
			p.head = nil
			ws.removeIfIdleLocked(p)
		}
	}
	ws.unsubscribeLocked(v)
	ws.mu.Unlock()
}

// mustWait reports whether this waiter must let others go first: waiters ahead of it, or a lock of
// this process that holds one of the names and will hand it off. If there are none, due reports
// whether another process must have its turn. mustWait clears the signals received so far.
func (v *waiter) mustWait() (behind, due bool) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.clearSignalsLocked()
	for _, name := range v.req.names {
		if p := ws.names[name]; p != nil {
			behind, due = behind || p.holder != nil, due || p.mustYield
		}
	}
	if behind = behind || !v.atHead; !behind {
		ws.resubscribeLocked(v)
	}
	return behind, due
}

// clearSignals discards the announcements and wake-ups received so far.
func (v *waiter) clearSignals() {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.clearSignalsLocked()
}

// clearSignalsLocked is clearSignals for a caller that holds waitTable.mu.
func (v *waiter) clearSignalsLocked() {
	v.announced = 0
	clear(v.announcedBy)
	v.dropWakeupLocked()
}

// dropWakeupLocked discards a wake-up. The caller holds waitTable.mu.
func (v *waiter) dropWakeupLocked() {
	v.woken = none
	select {
	case <-v.wake:
	default:
	}
}

// listen subscribes to the releases of the names, unless that was done before. It reports whether
// this call did so, and whether the subscriptions are confirmed on a majority of the nodes. Any
// release then reaches at least one of them.
func (v *waiter) listen() (first, confirmed bool) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.subscribedBefore = false
	if first = v.channels == nil; first {
		ws.subscribeLocked(v)
	}
	return first, v.confirmedNodesLocked() >= quorum.Majority(len(v.l.nodes))
}

// noteRefusal records that contenders of other processes had votes for the names. It ends this
// process's streak of holds.
func (v *waiter) noteRefusal(held bool) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range v.req.names {
		if p := ws.names[name]; p != nil && p.holder == nil {
			p.lostTo(held)
		}
	}
}

// waitForTurn waits while other waiters of this process go first, or while this process yields to
// another one.
func (v *waiter) waitForTurn(roundTrip time.Duration) (given *Lock, err error) {
	for given == nil && err == nil {
		behind, due := v.mustWait()
		switch {
		case behind:
			given, _, err = v.park(0, none)
		case due:
			return nil, v.stepBack(roundTrip)
		default:
			return nil, nil
		}
	}
	return given, err
}

// waitForRelease waits after a failed attempt until another one may succeed: until an announcement,
// the end of the holder's validity, or a poll, whichever is first.
func (v *waiter) waitForRelease(seen contention, pause *backoff, took time.Duration) (given *Lock, err error) {
	d, timed := max(pause.next(took), quarantineDelay(v.last)), byPoll
	if errors.Is(v.last, ErrHeld) {
		v.noteRefusal(seen.held)
	}
	v.noteVain(seen)
	first, confirmed, woken := false, false, none
	if seen.held {
		first, confirmed = v.listen()
		if free := seen.freeIn + expiryMargin; seen.freeIn >= 0 && free < d {
			d, timed = free, byExpiry
		}
	}
	if !confirmed {
		given, woken, err = v.park(d, timed)
	}
	if confirmed || seen.held && woken == bySubscription {
		// It was no split vote, so the next split vote begins with short pauses again.
		pause.current = 0
		// The lock may have been released before the subscription.
		given, woken, err = v.whileHeld(seen, first || !confirmed)
	}
	if err == nil && given == nil {
		v.reason = woken
		v.l.traceWoken(v, woken)
		return v.waitForTurn(took)
	}
	return given, err
}

// expiryMargin is how long after a key's expected end an attempt is made: nodes report TTLs in
// whole milliseconds.
const expiryMargin = 2 * time.Millisecond

// wakeForLocked wakes the waiter. The caller holds waitTable.mu.
func (v *waiter) wakeForLocked(why wakeReason) {
	v.woken = max(v.woken, why)
	if v.wake == nil {
		return
	}
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// stepBack lets other processes go first. It yields for longer if they did not use the last
// opportunity, because they may be farther away from the nodes.
func (v *waiter) stepBack(roundTrip time.Duration) error {
	ws, now := v.l.waitTable, v.l.now()
	var d time.Duration
	ws.mu.Lock()
	for _, name := range v.req.names {
		if p := ws.names[name]; p != nil {
			d = max(d, p.yieldFor(now, 2*roundTrip+v.l.set.minBackoff))
		}
	}
	ws.mu.Unlock()
	if d == 0 {
		return nil
	}
	_, err := v.sleep(d, nil)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.clearSignalsLocked()
	for _, name := range v.req.names {
		t, p := ws.channelOfLocked(name), ws.names[name]
		// An announcement of our own release would have come earlier.
		if p != nil && t != nil && t.lastAnnounced.After(now.Add(d/2)) {
			p.emptyYields = 0
		}
	}
	return err
}
