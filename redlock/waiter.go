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
	wish *wish

	// Guarded by waiters.mu:
	first    bool // it is at the head of its line: whoever holds its names can find it
	state    waiterState
	launched *Lock // an attempt that was begun for it
	woken    wakeUp
	wake     chan struct{} // holds one; made when it first rests
	topics   []*topic
	early    bool // it listens since before its first attempt, and has not waited
	heard    int  // nodes that announced a release since it was armed
	said     []bool

	alarm alarm.Alarm   // soon after the first announcement
	quiet clock.Instant // until then no announcement wakes it: those before were in vain
	poll  *keyPoll      // under way

	// Of its own goroutine:
	stays   []stay // by node, made when first needed
	last    error  // why it waits
	reason  wakeUp // why it made the attempt
	tokens  string // that held the names after the last attempt
	vain    int    // announcements in a row after which the same tokens held the names
	renewed bool   // they did so after an expiry, too: their holder extends them
}

// waiterState is what becomes of a waiter.
type waiterState uint8

const (
	busy      waiterState = iota // it tries by itself, or has left
	waiting                      // the lock can be handed to it
	launching                    // it is being handed to it
)

// contend attempts until it succeeds, and says how often it did.
func (v *waiter) contend() (k *Lock, attempts int, err error) {
	l, w, ctx := v.l, v.wish, v.ctx
	pause := backoff{least: l.set.backoffMin, most: l.set.backoffMax}
	v.last = errBehind
	given, err := v.behindOthers(l.set.backoffMin)
	for n := 1; err == nil; n++ {
		if n > 1 || given != nil { // before that nothing was heard
			v.arm()
		}
		k, seen, lost := l.attempt(ctx, w, l.now(), given)
		if lost == nil {
			return k, n, nil
		}
		if ctx.Err() != nil && n > 1 {
			break // an attempt that was cut short, or its explanation, knows less than those before it
		}
		if v.last = lost; l.hopeless(w, lost) {
			return nil, n, lost
		}
		l.traceWaiting(w, n, lost)
		given, err = v.await(seen, &pause, seen.took)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, 0, l.gaveUp(w, err, v.last)
}

// enter puts it at the end of its line.
func (v *waiter) enter(ctx context.Context, l *Locker, w *wish) {
	v.l, v.ctx, v.done, v.wish = l, ctx, ctx.Done(), w
	if l.queue.Enter(&w.place, w.names, v) {
		v.Turn()
	}
}

// Turn puts it, now at the head of its line, where the lock can be handed to it. It is
// called when the one before it leaves and not when its own goroutine comes to run: the
// one before it may have the lock by then, and give it back at once. For that its
// goroutine need not be woken.
func (v *waiter) Turn() {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.first = true
	held := false
	for _, name := range v.wish.names {
		p := ws.at(name)
		p.head = v
		held = held || p.holder != nil
	}
	if !held {
		v.stir(byHandOver)
	}
}

// leave takes it out of the line, wherever it stands, and gives the turn on. Only then it
// is taken from where Turn may have put it until then.
func (v *waiter) leave() {
	v.l.queue.Leave(&v.wish.place)
	ws := v.l.waiters
	ws.mu.Lock()
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil && p.head == v {
			p.head = nil
			ws.tidy(p)
		}
	}
	ws.unlisten(v)
	ws.mu.Unlock()
}

// behind reports whether others of this process go first: those ahead of it in line, or
// whoever holds one of the names and will hand it over. If none do it may be the turn of
// another process (due). What was heard until now is of no meaning then, but what is from
// now on.
func (v *waiter) behind() (behind, due bool) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.forget()
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil {
			behind, due = behind || p.holder != nil, due || p.due
		}
	}
	if behind = behind || !v.first; !behind {
		ws.rejoin(v)
	}
	return behind, due
}

// arm makes what comes from now on news.
func (v *waiter) arm() {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.forget()
}

// forget forgets what was heard. Called under waiters.mu.
func (v *waiter) forget() {
	v.heard = 0
	clear(v.said)
	v.sleepOn()
}

// sleepOn takes a wake-up back. Called under waiters.mu.
func (v *waiter) sleepOn() {
	v.woken = asleep
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
	v.early = false
	if first = v.topics == nil; first {
		ws.listen(v)
	}
	return first, v.standing() >= quorum.Majority(len(v.l.nodes))
}

// refused notes that others had the better of it: a row of this process, if there was
// one, is over.
func (v *waiter) refused(held bool) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil && p.holder == nil {
			p.outside(held)
		}
	}
}

// behindOthers waits while others go first, of this process or, for their turn, of another
// one.
func (v *waiter) behindOthers(roundTrip time.Duration) (given *Lock, err error) {
	for given == nil && err == nil {
		behind, due := v.behind()
		switch {
		case behind:
			given, _, err = v.rest(0, asleep)
		case due:
			return nil, v.yield(roundTrip)
		default:
			return nil, nil
		}
	}
	return given, err
}

// await waits after an attempt that failed until there is something to gain from another
// one: a message, the end of the holder's validity, or a poll, whichever is first.
func (v *waiter) await(seen scene, pause *backoff, took time.Duration) (given *Lock, err error) {
	d, timed := max(pause.next(took), quarantined(v.last)), byPoll
	if errors.Is(v.last, ErrHeld) {
		v.refused(seen.held)
	}
	v.noteVain(seen)
	first, stands, woken := false, false, asleep
	if seen.held {
		first, stands = v.listen()
		if free := seen.free + expiryMargin; seen.free >= 0 && free < d {
			d, timed = free, byExpiry
		}
	}
	if !stands {
		given, woken, err = v.rest(d, timed)
	}
	if stands || seen.held && woken == bySubscription {
		pause.grown = 0                                         // it is no split vote: the next one begins with short pauses again
		given, woken, err = v.whileHeld(seen, first || !stands) // it may have been released before we listened
	}
	if err == nil && given == nil {
		v.reason = woken
		v.l.traceWoken(v, woken)
		return v.behindOthers(took)
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

// yield lets others go first, whose turn it is: for longer when they did not take it
// the last time, because they may be farther from the nodes than we are.
func (v *waiter) yield(roundTrip time.Duration) error {
	ws, now := v.l.waiters, v.l.now()
	var d time.Duration
	ws.mu.Lock()
	for _, name := range v.wish.names {
		if p := ws.names[name]; p != nil {
			d = max(d, p.yield(now, 2*roundTrip+v.l.set.backoffMin))
		}
	}
	ws.mu.Unlock()
	if d == 0 {
		return nil
	}
	_, err := v.sleep(d, nil)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.forget()
	for _, name := range v.wish.names {
		t, p := ws.topic(name), ws.names[name]
		if p != nil && t != nil && t.latest.After(now.Add(d/2)) { // our own release was heard of before
			p.vain = 0
		}
	}
	return err
}
