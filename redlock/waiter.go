package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// waiter is a contender, in line or at its head. It is part of its wish, so that one that
// need not wait costs nothing.
type waiter struct {
	l    *Locker
	ctx  context.Context // only its own goroutine may call it: it may be the user's
	done <-chan struct{} // of ctx
	req  *request

	// Guarded by waiters.mu:
	atHead           bool // it is at the head of its line: whoever holds its names can find it
	state            waiterState
	handoff          *Lock // an attempt that was begun for it
	woken            wakeReason
	wake             chan struct{} // holds one; made when it first rests
	channels         []*releaseChannel
	subscribedBefore bool // it listens since before its first attempt, and has not waited
	announced        int  // nodes that announced a release since it was armed
	announcedBy      []bool

	alarm alarm.Alarm   // soon after the first announcement
	quiet clock.Instant // until then no announcement wakes it: those before were in vain
	poll  *keyPoll      // under way

	// Of its own goroutine:
	sightings []sighting // by node, made when first needed
	last      error      // why it waits
	reason    wakeReason // why it made the attempt
	tokens    string     // that held the names after the last attempt
	vainPolls int        // announcements in a row after which the same tokens held the names
	renewed   bool       // they did so after an expiry, too: their holder extends them
}

// waiterState is what becomes of a waiter.
type waiterState uint8

const (
	running   waiterState = iota // it tries by itself, or has left
	parked                       // the lock can be handed to it
	receiving                    // it is being handed to it
)

// run attempts until it succeeds, and says how often it did.
func (v *waiter) run() (k *Lock, attempts int, err error) {
	l, w, ctx := v.l, v.req, v.ctx
	pause := backoff{min: l.set.minBackoff, max: l.set.maxBackoff}
	v.last = errQueued
	given, err := v.waitForTurn(l.set.minBackoff)
	for n := 1; err == nil; n++ {
		if n > 1 || given != nil { // before that nothing was heard
			v.clearSignals()
		}
		k, seen, lost := l.attempt(ctx, w, l.now(), given)
		if lost == nil {
			return k, n, nil
		}
		if ctx.Err() != nil && n > 1 {
			break // an attempt that was cut short, or its explanation, knows less than those before it
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

// enqueue puts it at the end of its line.
func (v *waiter) enqueue(ctx context.Context, l *Locker, w *request) {
	v.l, v.ctx, v.done, v.req = l, ctx, ctx.Done(), w
	if l.queue.Enter(&w.ticket, w.names, v) {
		v.OnHead()
	}
}

// OnHead puts it, now at the head of its line, where the lock can be handed to it. It is
// called when the one before it leaves and not when its own goroutine comes to run: the
// one before it may have the lock by then, and give it back at once. For that its
// goroutine need not be woken.
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

// dequeue takes it out of the line, wherever it stands, and gives the turn on. Only then it
// is taken from where Turn may have put it until then.
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

// mustWait reports whether others of this process go first: those ahead of it in line, or
// whoever holds one of the names and will hand it over. If none do it may be the turn of
// another process (due). What was heard until now is of no meaning then, but what is from
// now on.
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

// clearSignals makes what comes from now on news.
func (v *waiter) clearSignals() {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.clearSignalsLocked()
}

// clearSignalsLocked forgets what was heard. Called under waiters.mu.
func (v *waiter) clearSignalsLocked() {
	v.announced = 0
	clear(v.announcedBy)
	v.dropWakeupLocked()
}

// dropWakeupLocked takes a wake-up back. Called under waiters.mu.
func (v *waiter) dropWakeupLocked() {
	v.woken = none
	select {
	case <-v.wake:
	default:
	}
}

// listen begins to listen for releases, unless that was done before. It reports whether
// they are heard of already, on so many nodes that none is missed by all.
func (v *waiter) listen() (first, stands bool) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.subscribedBefore = false
	if first = v.channels == nil; first {
		ws.subscribeLocked(v)
	}
	return first, v.confirmedNodesLocked() >= quorum.Majority(len(v.l.nodes))
}

// noteRefusal notes that others had the better of it: a row of this process, if there was
// one, is over.
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

// waitForTurn waits while others go first, of this process or, for their turn, of another
// one.
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

// waitForRelease waits after an attempt that failed until there is something to gain from another
// one: a message, the end of the holder's validity, or a poll, whichever is first.
func (v *waiter) waitForRelease(seen contention, pause *backoff, took time.Duration) (given *Lock, err error) {
	d, timed := max(pause.next(took), quarantineDelay(v.last)), byPoll
	if errors.Is(v.last, ErrHeld) {
		v.noteRefusal(seen.held)
	}
	v.noteVain(seen)
	first, stands, woken := false, false, none
	if seen.held {
		first, stands = v.listen()
		if free := seen.freeIn + expiryMargin; seen.freeIn >= 0 && free < d {
			d, timed = free, byExpiry
		}
	}
	if !stands {
		given, woken, err = v.park(d, timed)
	}
	if stands || seen.held && woken == bySubscription {
		pause.current = 0                                       // it is no split vote: the next one begins with short pauses again
		given, woken, err = v.whileHeld(seen, first || !stands) // it may have been released before we listened
	}
	if err == nil && given == nil {
		v.reason = woken
		v.l.traceWoken(v, woken)
		return v.waitForTurn(took)
	}
	return given, err
}

// expiryMargin is how long after a key's end it is tried for: TTLs are told in whole
// milliseconds.
const expiryMargin = 2 * time.Millisecond

// wakeForLocked wakes it. Called under waiters.mu.
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

// stepBack lets others go first, whose turn it is: for longer when they did not take it
// the last time, because they may be farther from the nodes than we are.
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
		if p != nil && t != nil && t.lastAnnounced.After(now.Add(d/2)) { // our own release was heard of before
			p.emptyYields = 0
		}
	}
	return err
}
