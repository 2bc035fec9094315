package waiting

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Contender is the acquisition that a Waiter waits for. The waiter's own goroutine calls its
// methods, except NewAttempt and Inherits.
type Contender interface {
	// NewAttempt makes an attempt that is ready to be sent, for a handoff. It returns nil if that is
	// not possible. The goroutine of a release calls it, under no mutex of the Table. The waiter is
	// parked meanwhile.
	NewAttempt() *vote.Round
	// Failed returns which nodes failed in the last attempt.
	Failed() []bool
	// Polled reports what a poll found: until when each node cannot grant the names, or 0 for a node
	// that can. stillHeld reports that the waiter goes on waiting.
	Polled(until []clock.Instant, stillHeld bool)
	// Waits reports that the waiter is about to wait, for any reason, also for its first attempt. It is
	// called again when the waiter waits again.
	Waits()
	// Woken reports that the waiter continues.
	Woken(Reason)
	// Inherits says that it goes on where another one stopped, which gave up. That one's goroutine calls it, while the waiter
	// is parked.
	Inherits(from Contender)
}

// Waiter is a contender for a lock, queued or at the head. It is part of its acquisition, so that
// one that does not wait allocates nothing. The zero Waiter is ready for use. Its methods are for
// one goroutine. A Waiter must not be copied after Enter, nor reused if it has waited: a release may be about to hand
// a lock to it, or a node to answer its poll.
type Waiter struct {
	// FailFast makes an Outage end the wait. It is set before Enter.
	FailFast bool

	table     *Table
	ctx       context.Context // may be the user's, so only the waiter's own goroutine calls it
	done      <-chan struct{} // of ctx
	names     []string
	contender Contender

	// Guarded by Table.mu. Only the waiter's own goroutine changes entries, and look.queued while it is not parked. So
	// it reads len(entries), and then look.queued, without the mutex.
	place
	subs    subscribed
	look    look
	phase   phase
	handoff *vote.Round // an attempt that was begun for it
	woken   Reason
	wake    signal.Signal // made on the first park
	asleep  clock.Instant // while it is parked: when it continues by itself
	poll    *poll         // in flight; the waiter's own goroutine alone changes it

	// Used only by the waiter's own goroutine:
	pause  Backoff
	reason Reason   // why it made the last attempt
	awaits []string // the names whose releases it awaits, all or one
	seen   sighted
}

// phase is the state of a waiter with regard to handoffs.
type phase uint8

const (
	running   phase = iota // it makes attempts itself, or has left
	parked                 // it can receive a handoff
	receiving              // it is receiving a handoff
	gaveUp                 // its context ended, or the Locker was closed, while it was parked
)

// Enter puts the waiter at the end of the queues of its names, and waits for its turn. The names are
// distinct. After Enter, also if the context panics, the waiter must leave by Leave or Acquired.
//
// It returns nil when the contender may make an attempt, or an attempt that was handed off. It
// returns an error if the context ended or the Locker was closed, or an Outage.
func (t *Table) Enter(ctx context.Context, w *Waiter, names []string, c Contender) (*vote.Round, error) {
	w.table, w.ctx, w.done, w.names, w.contender = t, ctx, ctx.Done(), names, c
	w.pause, w.awaits = t.cfg.Backoff, names
	t.mu.Lock()
	w.enterLocked(w)
	w.subs.waiter = w
	turn := w.turnLocked()
	t.mu.Unlock()
	if turn {
		return nil, nil
	}
	return w.await(sleeps)
}

// Leave removes the waiter from its queues, at any position, and lets the next one advance. It does
// nothing if the waiter has left.
func (w *Waiter) Leave() {
	if len(w.entries) == 0 {
		return // it has left, or never entered
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.leaveLocked(w.entries[0].state.again())
}

// leaveLocked removes the waiter from its queues. Its subscriptions linger. It does nothing if the waiter is in no queue.
func (w *Waiter) leaveLocked(linger time.Duration) {
	if len(w.entries) > 0 {
		w.place.leaveLocked()
		w.subs.endLocked(linger)
		w.look.plan(0)
		w.poll = nil
	}
}

// advanceLocked records that the waiter has come to the head of one more queue. At the head of all
// it is woken, unless a lock of this process still holds one of its names: that lock's release will
// hand it off.
func (w *Waiter) advanceLocked() {
	if w.ahead--; w.ahead == 0 && w.table.holderLocked(w.names) == nil {
		w.wakeLocked(ByHandoff)
	}
}

// inheritLocked goes on where a head that gave up stopped, and reports whether it does so: the next waiter for the same
// names knows what that one knew. An attempt at once would be out of turn, and those of many that give up would be a herd.
// It does not where an attempt is due anyway, nor if that one gave up in an attempt: it may have been woken by a release.
func (w *Waiter) inheritLocked(from *Waiter) bool {
	if w.phase != parked || w.ahead != 1 || !slices.Equal(w.names, from.names) ||
		from.phase != gaveUp || from.woken != none || from.look.queued || !from.toldLocked() ||
		w.table.holderLocked(w.names) != nil {
		return false
	}
	w.ahead, w.awaits, w.look, w.seen, w.pause = 0, from.awaits, from.look, from.seen, from.pause
	if w.look.polling { // the answers are lost
		w.look.listen(w.table.now())
	}
	w.subs.channels, from.subs.channels = from.subs.channels, nil
	for _, c := range w.subs.channels {
		c.waiter = w
	}
	w.contender.Inherits(from.contender)
	w.wake.Set()
	return true
}

// clearSignalsLocked discards the announcements and wake-ups received so far. It precedes each attempt.
func (w *Waiter) clearSignalsLocked() {
	if w.look.due != 0 {
		w.look.plan(0)
	}
	w.subs.forgetLocked()
	w.poll, w.woken = nil, none
	w.wake.Clear()
}

// Wait waits after a failed attempt until another one may succeed: until an announcement, the end
// of the holder's validity, or a poll, whichever is first. It returns as Enter does.
func (w *Waiter) Wait(seen verdict.Contention) (*vote.Round, error) {
	w.table.mu.Lock()
	s := w.failedLocked(seen)
	w.table.mu.Unlock()
	return w.await(s)
}

// await waits until the waiter makes an attempt. It is the only place in which one waits.
func (w *Waiter) await(s step) (*vote.Round, error) {
	var woken Reason
	for {
		switch s {
		case polls:
			newPoll(w, w.contender.Failed()).begin()
		case concludes:
			s, woken = w.poll.end(), ByPoll
		}
		if s == tries && w.mayTry(woken) {
			return nil, nil
		}
		var attempt *vote.Round
		var err error
		if attempt, s, woken, err = w.park(); attempt != nil || err != nil {
			return attempt, err
		}
	}
}

// mayTry reports whether the waiter makes an attempt now. Otherwise others go first.
func (w *Waiter) mayTry(woken Reason) bool {
	w.table.mu.Lock()
	first := w.look.queued
	turn := w.turnLocked()
	w.table.mu.Unlock()
	if turn {
		w.reason = woken
	}
	if turn && !first {
		w.contender.Woken(woken)
	}
	return turn
}

// turnLocked reports whether the waiter makes an attempt now. Otherwise others go first: waiters ahead of it, a lock
// of this process that holds one of the names and will hand it off, or other processes. It clears the signals received
// so far.
func (w *Waiter) turnLocked() bool {
	w.clearSignalsLocked()
	behind, due := !w.atHead(), false
	for i := range w.entries {
		s := w.entries[i].state
		behind, due = behind || s.holder != nil, due || s.mustYield
	}
	if behind {
		w.look.queued = true
		return false
	}
	w.subs.resumeLocked()
	return !due || !w.yieldLocked()
}

// yieldLocked lets other processes go first, and reports whether it does. Meanwhile the waiter hears of their
// releases.
func (w *Waiter) yieldLocked() bool {
	t := w.table
	now, until, others, kept := t.now(), clock.Instant(0), false, false
	for i := range w.entries {
		s := w.entries[i].state
		until, others, kept = max(until, s.yieldUntil(now)), others || s.others, kept || s.releasedAt.After(now)
	}
	if until == 0 {
		return false
	}
	if others {
		w.awaits = w.names
		w.subs.beginLocked(w.awaits)
	}
	if w.look.held, w.look.expiry = false, never; !w.toldLocked() {
		most := MaxForeignPause // the keys may be gone before the end of a minimum hold
		if others {             // it may not hear of their turns
			most = maxSlot + maxTrip
		}
		w.look.pause(min(until, now.Add(most)), ByMessage)
		return true
	}
	w.look.listen(now.Add(t.pollPause(true, false)))
	w.look.renewing = w.look.renewing || kept // the keys end at until: others go first
	w.planLocked(until)
	if rest := w.entries[0].state.rest(0, draw()); rest > 0 && len(w.names) == 1 {
		w.restLocked(rest)
	}
	return true
}

// failedLocked decides what the waiter waits for after a failed attempt.
func (w *Waiter) failedLocked(seen verdict.Contention) step {
	t, l := w.table, &w.look
	now := t.now()
	assumed := seen.Why == verdict.Assumed
	w.awaits = w.seen.awaited(w.awaits, w.names, seen.Tokens)
	if !assumed { // otherwise nothing was seen
		switch same := w.seen.note(now, seen); {
		case !same:
			l.renewing = false
		case w.reason == ByExpiry: // their holder extends them: expiries no longer wake the waiter
			l.renewing = true
		}
	}
	if w.reason == ByMessage {
		if doublings := w.seen.inVain(); doublings > 0 {
			l.ignore(now.Add(min(t.cfg.Backoff.Min<<doublings, t.maxPause())))
		}
	}
	if seen.Why.Refused() {
		w.noteRefusalLocked(now, seen.Took)
	}
	if l.held, l.expiry = seen.Stuck, never; seen.Stuck && seen.FreeIn >= 0 {
		l.expiry = now.Add(seen.FreeIn + ExpiryMargin)
	}
	if seen.Stuck {
		first := w.subs.beginLocked(w.awaits)
		if w.toldLocked() {
			w.pause.reset() // it was no split vote, so the next split vote begins with short pauses again
			l.listen(now.Add(t.pollPause(true, w.seen.foreign || assumed)))
			l.told = !assumed // if no other release is announced, an attempt finds out who holds the names
			if first {
				return polls // the lock may have been released before the subscription
			}
			return sleeps
		}
	}
	d := max(w.pause.Next(seen.Took), seen.Pause)
	if seen.Tokens != nil && !assumed && w.seen.changing(now) && d > seen.Pause {
		d = min(d, max(t.cfg.Backoff.Min, seen.Took)+rand.N(maxBusyPause))
	}
	l.pause(now.Add(d), ByPoll)
	return sleeps
}

// noteRefusalLocked records that contenders of other processes had votes for the names, which ends this process's
// streak of holds.
func (w *Waiter) noteRefusalLocked(now clock.Instant, took time.Duration) {
	for i := range w.entries {
		s := w.entries[i].state
		if s.took(took); w.reason == ByMessage {
			s.refused()
		}
		if s.holder == nil {
			s.lostTo(now)
			if !w.toldLocked() { // nor will it hear of their releases
				s.otherTurns(1)
			}
		}
	}
}

// MayAssumeHeld reports whether a refusal needs no query for its reason: after a release others were faster.
// Now and then it is queried nevertheless.
func (w *Waiter) MayAssumeHeld() bool { return w.reason == ByMessage && w.seen.vain%8 != 7 }

// park sleeps until the waiter continues. It returns with which step and why, or an attempt that was handed off meanwhile,
// or an error if the context ended or the Locker was closed.
func (w *Waiter) park() (*vote.Round, step, Reason, error) {
	w.contender.Waits()
	var err error
	d, over := w.startPark()
	if d > 0 {
		over, err = w.table.sleep(w.done, d, w.wake)
	}
	attempt, next, why, err := w.finishPark(over, err)
	return attempt, next, why, causeOf(w.ctx, err)
}

// startPark returns for how long the waiter sleeps, at most; 0 if it continues at once. over reports that this is as
// planned: nobody woke it.
func (w *Waiter) startPark() (d time.Duration, over bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if w.wake == nil {
		w.wake = signal.New()
	}
	w.phase = parked
	w.asleep, _ = w.nextLocked()
	switch {
	case w.woken != none, w.FailFast && w.outageLocked() != nil:
		return 0, false
	case w.asleep == never:
		return verdict.NoExpiry, false
	}
	d = w.asleep.Sub(w.table.now())
	return d, d <= 0
}

// finishPark ends a park. over reports that the planned time has come: announcements may have changed the plan.
func (w *Waiter) finishPark(over bool, err error) (*vote.Round, step, Reason, error) {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for w.phase == receiving && w.handoff == nil { // receive is about to be called
		t.mu.Unlock()
		<-w.wake
		t.mu.Lock()
	}
	attempt, woken := w.handoff, w.woken
	if at, why := w.nextLocked(); over && at <= w.asleep {
		woken = max(woken, why)
	}
	w.phase, w.handoff, w.asleep = running, nil, 0
	if attempt != nil {
		w.clearSignalsLocked()
		return attempt, tries, ByHandoff, nil // the receiver of the attempt checks the context
	}
	if woken == byRest {
		w.listenAgainLocked()
	}
	if why := w.outageLocked(); err == nil && w.FailFast && why != nil {
		err = Outage{why}
	}
	if err != nil {
		w.phase = gaveUp
	}
	return nil, w.look.after(woken, w.toldLocked()), woken, err
}

// nextLocked returns when the waiter continues by itself, and why.
func (w *Waiter) nextLocked() (clock.Instant, Reason) { return w.look.next(w.subs.graceLocked()) }

// planLocked plans an attempt, in place of another one or of a rest.
func (w *Waiter) planLocked(at clock.Instant) {
	w.listenAgainLocked()
	w.look.plan(at)
	w.replanLocked()
}

// restLocked ends the subscription to the only name for a while: the waiter is far from its turn, and to hear of
// each release costs all processes more than it is worth. When it subscribes again it polls, since nobody may
// listen by then.
func (w *Waiter) restLocked(d time.Duration) {
	w.entries[0].state.missed(d)
	w.subs.channels[0].restLocked()
	w.look.due, w.look.rest = 0, w.table.now().Add(d)
	w.replanLocked()
}

// listenAgainLocked ends a rest.
func (w *Waiter) listenAgainLocked() {
	w.look.rest = 0
	w.subs.listenAgainLocked()
}

// toldLocked reports whether the waiter is told of releases, or need not be for now.
func (w *Waiter) toldLocked() bool { return w.look.rest != 0 || w.subs.confirmedLocked() }

// replanLocked wakes the waiter if it sleeps for too long.
func (w *Waiter) replanLocked() {
	if at, _ := w.nextLocked(); at < w.asleep {
		w.wake.Set()
	}
}

// wakeLocked wakes the waiter.
func (w *Waiter) wakeLocked(why Reason) {
	w.woken = max(w.woken, why)
	w.wake.Set()
}
