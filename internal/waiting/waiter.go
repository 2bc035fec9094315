package waiting

import (
	"context"
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
	subscribedBefore bool // it has subscribed before its first attempt and has not waited since
	announced        int  // nodes that announced a release since the last clearSignals
	announcedBy      []bool
	timer            timer.Timer   // fires soon after the first announcement
	quiet            clock.Instant // until then announcements do not wake it: earlier ones were fruitless
	poll             *poll         // in flight

	// Used only by the waiter's own goroutine:
	pause          Backoff
	reason         Reason // why it made the last attempt
	tokens         string // that held the names after the last attempt
	fruitless      int    // successive announcements after which the same tokens held the names
	holderRenewing bool   // they also held them after an expiry, so their holder extends them
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
	return w.awaitTurn(behind, due, t.cfg.Backoff.Min)
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
func (w *Waiter) Reusable() bool { return w.wake == nil && w.announcedBy == nil }

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
func (w *Waiter) awaitTurn(behind, due bool, roundTrip time.Duration) (attempt *vote.Round, err error) {
	for behind {
		if attempt, _, err = w.park(0, none); attempt != nil || err != nil {
			return attempt, err
		}
		w.table.mu.Lock()
		behind, due = w.mustWaitLocked()
		w.table.mu.Unlock()
	}
	if due {
		return nil, w.yield(roundTrip)
	}
	return nil, nil
}

// Wait waits after a failed attempt until another one may succeed: until an announcement, the end
// of the holder's validity, or a poll, whichever is first. It returns as Enter does.
func (w *Waiter) Wait(seen Contention) (*vote.Round, error) {
	d, timed := max(w.pause.Next(seen.Took), seen.Pause), ByPoll
	if seen.Refused {
		w.noteRefusal(seen.Held)
	}
	w.noteFruitless(seen)
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
	w.reason = woken
	w.contender.Woken(woken)
	w.table.mu.Lock()
	behind, due := w.mustWaitLocked()
	w.table.mu.Unlock()
	return w.awaitTurn(behind, due, seen.Took)
}

// ExpiryMargin is how long after a key's expected end an attempt is made: nodes report TTLs in
// whole milliseconds.
const ExpiryMargin = 2 * time.Millisecond

// noteRefusal records that contenders of other processes had votes for the names. It ends this
// process's streak of holds.
func (w *Waiter) noteRefusal(held bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	for i := range w.entries {
		if s := w.entries[i].state; s.holder == nil {
			s.lostTo(held)
		}
	}
}

// yield lets other processes go first. It yields for longer if they did not use the last
// opportunity, because they may be farther away from the nodes.
func (w *Waiter) yield(roundTrip time.Duration) error {
	t := w.table
	now, d := t.now(), time.Duration(0)
	t.mu.Lock()
	for i := range w.entries {
		d = max(d, w.entries[i].state.yieldFor(now, 2*roundTrip+t.cfg.Backoff.Min))
	}
	t.mu.Unlock()
	if d == 0 {
		return nil
	}
	w.contender.Waits()
	_, err := t.sleep(w.ctx, w.done, d, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	w.clearSignalsLocked()
	for i := range w.entries {
		s := w.entries[i].state
		// An announcement of our own release would have come earlier.
		if c := t.channelLocked(s.name); c != nil && c.lastAnnounced.After(now.Add(d/2)) {
			s.emptyYields = 0
		}
	}
	return err
}
