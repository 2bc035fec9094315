package waiting

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Contender is the acquisition that a Waiter waits for. The waiter's own goroutine calls its
// methods, except NewAttempt.
type Contender interface {
	// NewAttempt makes an attempt that is ready to be sent, for a handoff. It returns nil if that is
	// not possible. The goroutine of a release calls it, under no mutex of the Table. The waiter is
	// parked meanwhile.
	NewAttempt() *vote.Round
	// Failed returns which nodes failed in the last attempt.
	Failed() []bool
	// Polled reports what a poll found: until when each node cannot grant the names, or 0 for a node
	// that can.
	Polled(until []clock.Instant)
	// StillHeld reports that the poll found the names still held and the waiter goes on waiting.
	StillHeld()
	// Waits reports that the waiter is about to wait, for any reason, also for its first attempt. It is
	// called again when the waiter waits again.
	Waits()
	// Woken reports that the waiter continues.
	Woken(Reason)
}

// Contention describes why an attempt failed.
type Contention struct {
	// Held reports that it is no split vote: one token is on a quorum, or no contender can have a
	// quorum.
	Held bool
	// FreeIn is the time until that can be over without a release. It is negative if unknown.
	FreeIn time.Duration
	// Tokens identifies the tokens that are on a quorum, for all names.
	Tokens string
	// Foreign reports that a token is not from this library, so its release is not announced.
	Foreign bool

	Took  time.Duration // duration of the attempt until its decision
	Pause time.Duration // the least pause before the next attempt, as after a quarantine
	// Refused reports that contenders of other processes had votes.
	Refused bool
	// Assumed reports that no node was queried: see MayAssumeHeld.
	Assumed bool
}

// Waiter is a contender for a lock, queued or at the head. It is part of its acquisition, so that
// one that does not wait allocates nothing. The zero Waiter is ready for use. Its methods are for
// one goroutine. A Waiter must not be copied or reused after Enter unless Reusable reports true.
type Waiter struct {
	table     *Table
	ctx       context.Context // may be the user's, so only the waiter's own goroutine calls it
	done      <-chan struct{} // of ctx
	names     []string
	contender Contender

	// Guarded by Table.mu. The waiter's own goroutine alone changes entries, and so may read its length
	// without the mutex.
	entries          []entry  // in the queues; empty: it has left
	single           [1]entry // backs entries for one name, the usual case
	ahead            int      // number of queues in which other waiters are ahead
	phase            phase
	handoff          *vote.Round // an attempt that was begun for it
	woken            Reason
	wake             signal.Signal // made on the first park
	channels         []*channel
	subscribedBefore bool          // it has subscribed before its first attempt and has not waited since
	timer            timer.Timer   // for due or restUntil
	due              clock.Instant // when it tries after a release; 0: none is planned
	restUntil        clock.Instant // until then it does not listen; 0: it does
	quietUntil       clock.Instant // until then it does not try after a release, because it did so in vain
	timed            bool          // the timer was set once
	poll             *poll         // in flight

	// Used only by the waiter's own goroutine:
	pause          Backoff
	reason         Reason // why it made the last attempt
	tokens         string // that held the names after the last query for them
	vain           int    // successive attempts after messages while the same tokens held the names
	foreign        bool   // one of them was not from this library
	holderRenewing bool   // the same tokens held the names after an expiry, so their holder extends them
}

// Enter puts the waiter at the end of the queues of its names, and waits for its turn. The names are
// distinct. After Enter, also if the context panics, the waiter must leave by Leave or Acquired.
//
// It returns nil when the contender may make an attempt, or an attempt that was handed off. It
// returns an error if the context ended or the Locker was closed.
func (t *Table) Enter(ctx context.Context, w *Waiter, names []string, c Contender) (*vote.Round, error) {
	w.table, w.ctx, w.done, w.names, w.contender = t, ctx, ctx.Done(), names, c
	w.pause = t.cfg.Backoff
	t.mu.Lock()
	w.enterLocked()
	behind, due := w.mustWaitLocked()
	t.mu.Unlock()
	return w.awaitTurn(behind, due)
}

// Leave removes the waiter from its queues, at any position, and lets the next one advance. It does
// nothing if the waiter has left.
func (w *Waiter) Leave() {
	if len(w.entries) == 0 {
		return // it has left, or never entered
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.leaveLocked()
}

// ClearSignals discards the announcements and wake-ups received so far. It precedes each attempt
// but the first.
func (w *Waiter) ClearSignals() {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.clearSignalsLocked()
}

// Reusable reports whether nothing else uses the waiter once it has left. The timer of a waiter that
// has received an announcement may be about to fire.
func (w *Waiter) Reusable() bool { return w.wake == nil && !w.timed }

// mustWaitLocked reports whether this waiter must let others go first: waiters ahead of it, or a
// lock of this process that holds one of the names and will hand it off. If there are none, due
// reports whether another process must have its turn. It clears the signals received so far.
func (w *Waiter) mustWaitLocked() (behind, due bool) {
	w.clearSignalsLocked()
	behind = !w.atHead()
	for i := range w.entries {
		s := w.entries[i].state
		behind, due = behind || s.holder != nil, due || s.mustYield
	}
	if !behind {
		w.resubscribeLocked()
	}
	return behind, due
}

// awaitTurn waits while other waiters of this process go first, or while this process yields to
// another one.
func (w *Waiter) awaitTurn(behind, due bool) (attempt *vote.Round, err error) {
	for behind {
		if attempt, _, err = w.park(0, none); attempt != nil || err != nil {
			return attempt, err
		}
		w.table.mu.Lock()
		behind, due = w.mustWaitLocked()
		w.table.mu.Unlock()
	}
	if due {
		return w.yield()
	}
	return nil, nil
}

// Wait waits after a failed attempt until another one may succeed: until an announcement, the end
// of the holder's validity, or a poll, whichever is first. It returns as Enter does.
func (w *Waiter) Wait(seen Contention) (*vote.Round, error) {
	d, timed := max(w.pause.Next(seen.Took), seen.Pause), ByPoll
	changing := w.noteFailure(seen)
	if seen.Assumed {
		seen.Foreign = w.foreign
	}
	w.foreign = seen.Foreign
	var attempt *vote.Round
	var err error
	first, confirmed, woken := false, false, none
	if seen.Held {
		first, confirmed = w.listen()
		if free := seen.FreeIn + ExpiryMargin; seen.FreeIn >= 0 && free < d {
			d, timed = free, ByExpiry
		}
	}
	if !confirmed {
		if changing && d > seen.Pause {
			d = min(d, max(w.table.cfg.Backoff.Min, seen.Took)+rand.N(maxBusyPause))
		}
		attempt, woken, err = w.park(d, timed)
	}
	if confirmed || seen.Held && woken == BySubscription {
		// It was no split vote, so the next split vote begins with short pauses again.
		w.pause.reset()
		// The lock may have been released before the subscription.
		pollAtOnce := first || !confirmed
		attempt, woken, err = w.whileHeld(seen, pollAtOnce)
	}
	if err != nil || attempt != nil {
		return attempt, err
	}
	return w.continueBy(woken)
}

// continueBy makes the next attempt, unless others of this process go first.
func (w *Waiter) continueBy(woken Reason) (*vote.Round, error) {
	w.reason = woken
	w.contender.Woken(woken)
	w.table.mu.Lock()
	behind, due := w.mustWaitLocked()
	w.table.mu.Unlock()
	return w.awaitTurn(behind, due)
}

// ExpiryMargin is how long after a key's expected end an attempt is made: nodes report TTLs in
// whole milliseconds.
const ExpiryMargin = 2 * time.Millisecond

// noteFailure records a failed attempt. If contenders of other processes had votes for the names, this
// process's streak of holds is over. If the same tokens hold the names after an expiry, their holder extends
// them, and expiries no longer wake the waiter. It reports whether the names were held by other tokens before.
func (w *Waiter) noteFailure(seen Contention) (changing bool) {
	switch {
	case seen.Assumed:
	case seen.Tokens != w.tokens || seen.Tokens == "":
		changing = seen.Tokens != "" && w.tokens != ""
		w.tokens, w.holderRenewing, w.vain = seen.Tokens, false, 0
	case w.reason == ByExpiry:
		w.holderRenewing = true
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	now := w.table.now()
	if w.reason != ByMessage {
		w.vain = 0
	} else if w.vain++; w.vain > patience {
		w.quietUntil = now.Add(min(w.table.cfg.Backoff.Min<<min(w.vain-patience, maxDoublings), w.table.maxPause()))
		if w.woken == ByMessage || w.due != 0 { // by messages during the attempt
			w.dropWakeupLocked()
			w.planLocked(w.quietUntil)
		}
	}
	if !seen.Refused {
		return changing
	}
	for i := range w.entries {
		s := w.entries[i].state
		if s.took(seen.Took); w.reason == ByMessage {
			s.refused()
		}
		if s.holder == nil {
			s.lostTo(now)
		}
	}
	return changing
}

// maxBusyPause bounds the pause between the attempts of a waiter that hears of no release and sees that the names
// change hands. Processes that can't know that it waits leave blindPause for it.
const maxBusyPause = blindPause

// A waiter that has heard of more releases than patience, and found the same tokens each time, makes pauses,
// which double: messages may be forged.
const (
	patience     = 16
	maxDoublings = 16
)

// MayAssumeHeld reports whether a refusal needs no query for its reason: after a release others were faster.
// Now and then it is queried nevertheless.
func (w *Waiter) MayAssumeHeld() bool { return w.reason == ByMessage && w.vain%8 != 7 }

// yield lets other processes go first. Meanwhile the waiter hears of their releases.
func (w *Waiter) yield() (attempt *vote.Round, err error) {
	t := w.table
	t.mu.Lock()
	now, until := t.now(), clock.Instant(0)
	for i := range w.entries {
		until = max(until, w.entries[i].state.yieldUntil(now))
	}
	t.mu.Unlock()
	if until == 0 {
		return nil, nil
	}
	var woken Reason
	if _, confirmed := w.listen(); confirmed {
		t.mu.Lock()
		w.planLocked(until)
		if rest := w.entries[0].state.rest(0, draw()); rest > 0 && len(w.channels) == 1 {
			w.restLocked(rest)
		}
		t.mu.Unlock()
		attempt, woken, err = w.whileHeld(Contention{FreeIn: -1}, false)
	} else {
		attempt, woken, err = w.park(min(until.Sub(now), maxSlot), ByMessage)
	}
	if err != nil || attempt != nil {
		return attempt, err
	}
	return w.continueBy(woken)
}
