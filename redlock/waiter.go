package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// waiter is a contender at the head of its line. It is part of its wish, so that one that
// need not wait costs nothing.
type waiter struct {
	l    *Locker
	ctx  context.Context
	wish *wish

	// Guarded by waiters.mu:
	state    waiterState
	launched *Lock // an attempt that was begun for it
	woken    wakeUp
	wake     chan struct{} // holds one; made when it first rests
	topics   []*topic
	heard    int // nodes that announced a release since it was armed
	said     []bool
	yields   int // others go first: how often in a row they were let

	alarm alarm.Alarm // soon after the first announcement
}

// waiterState is what becomes of a waiter.
type waiterState uint8

const (
	busy      waiterState = iota // it tries by itself, or has left
	waiting                      // the lock can be handed to it
	launching                    // it is being handed to it
)

// wakeUp is why a waiter goes on.
type wakeUp uint8

const (
	asleep wakeUp = iota
	byPoll
	byExpiry
	bySubscription
	byMessage
	byHandOver
)

// String names the reason as hooks are told it.
func (w wakeUp) String() string {
	switch w {
	case byPoll:
		return "poll"
	case byExpiry:
		return "expiry"
	case bySubscription:
		return "subscription"
	case byMessage:
		return "message"
	case byHandOver:
		return "hand-over"
	}
	return "none"
}

// contend attempts until it succeeds, and says how often it did.
func (v *waiter) contend() (k *Lock, attempts int, err error) {
	l, w, ctx := v.l, v.wish, v.ctx
	pause := backoff{least: l.set.backoffMin, most: l.set.backoffMax}
	last := errBehind
	given, err := v.behindHolder()
	for n := 1; err == nil; n++ {
		v.arm()
		start := l.now()
		k, lost := l.once(ctx, w, given)
		if lost == nil {
			return k, n, nil
		}
		w.tries++
		if ctx.Err() != nil && n > 1 {
			break // an attempt cut short knows less than those before it
		}
		took := l.now().Sub(start)
		seen, lost := l.explain(ctx, w, lost)
		if last = lost; l.hopeless(w, lost) {
			return nil, n, lost
		}
		l.traceWaiting(w, n, lost)
		given, err = v.await(seen, lost, &pause, took)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, 0, l.gaveUp(w, err, last)
}

// enter puts the head of a line where it can be found.
func (v *waiter) enter(ctx context.Context, l *Locker, w *wish) {
	v.l, v.ctx, v.wish = l, ctx, w
	ws := l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range w.names {
		ws.at(name).head = v
	}
}

// leave takes it out, with what was begun for it.
func (v *waiter) leave() {
	ws := v.l.waiters
	ws.mu.Lock()
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil && p.head == v {
			p.head = nil
			ws.tidy(name)
		}
	}
	ws.unlisten(v)
	ws.mu.Unlock()
	ws.l.alarms.Clear(&v.alarm)
}

// heldHere reports whether somebody of this process holds one of the names.
func (v *waiter) heldHere() bool {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.held(v.wish.names)
}

// arm forgets what was heard: what comes from now on is news.
func (v *waiter) arm() {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.woken, v.heard = asleep, 0
	clear(v.said)
	select {
	case <-v.wake:
	default:
	}
}

// listen begins to listen for releases, unless that was done before. It reports whether
// they are heard of already, on so many nodes that none is missed by all.
func (v *waiter) listen() (first, stands bool) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if first = v.topics == nil; first {
		ws.listen(v)
	}
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil && p.holder == nil {
			p.vain = 0 // others have it
		}
	}
	return first, v.standing() >= quorum.Majority(len(v.l.nodes))
}

// behindHolder waits while somebody of this process holds one of the names, who will hand
// it over.
func (v *waiter) behindHolder() (given *Lock, err error) {
	for v.arm(); given == nil && err == nil && v.heldHere(); v.arm() {
		given, _, err = v.rest(0, asleep)
	}
	if given == nil && err == nil {
		err = v.yield(v.l.set.backoffMin)
	}
	return given, err
}

// await waits after an attempt that failed until there is something to gain from another
// one: a message, the end of the holder's validity, or a poll, whichever is first.
func (v *waiter) await(seen scene, lost error, pause *backoff, took time.Duration) (given *Lock, err error) {
	d, timed := max(pause.next(took), quarantined(lost)), byPoll
	if seen.held {
		first, stands := v.listen()
		if first && stands {
			return nil, nil // it may have been released before we listened
		}
		if stands {
			latest := max(pollLatest, v.l.set.backoffMax)
			d = latest/2 + rand.N(latest/2)
			pause.grown = 0 // it is no split vote: the next one begins with short pauses again
		}
		if free := seen.free + expiryMargin; seen.free >= 0 && free < d {
			d, timed = free, byExpiry
		}
	}
	given, woken, err := v.rest(d, timed)
	if err == nil && given == nil {
		v.l.traceWoken(v, woken)
		if v.heldHere() {
			return v.behindHolder()
		}
		err = v.yield(took)
	}
	return given, err
}

// expiryMargin is how long after a key's end it is tried for: TTLs are told in whole
// milliseconds.
const expiryMargin = 2 * time.Millisecond

// stir wakes it. Called under waiters.mu.
func (v *waiter) stir(why wakeUp) {
	v.woken = max(v.woken, why)
	if v.wake == nil {
		return
	}
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// yield lets others go first, if it is their turn: for longer when they did not take it
// the last time, because they may be farther from the nodes than we are.
func (v *waiter) yield(roundTrip time.Duration) error {
	ws := v.l.waiters
	ws.mu.Lock()
	n := v.yields
	v.yields = 0
	ws.mu.Unlock()
	if n == 0 {
		return nil
	}
	return v.l.pause(v.ctx, (2*roundTrip+v.l.set.backoffMin)<<(n-1))
}
