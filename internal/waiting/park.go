package waiting

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Reason is why a waiter continues. Larger reasons take precedence.
type Reason uint8

// The reasons.
const (
	none           Reason = iota
	byAnswer              // a poll was answered; not reported
	ByPoll                // a poll found that an attempt can succeed, or the pause is over
	ByExpiry              // the holder's keys have expired
	BySubscription        // announcements are received from now on
	ByMessage             // a release was announced
	ByHandoff             // a lock of this process ended
)

// String returns the reason as hooks receive it.
func (r Reason) String() string {
	switch r {
	case ByPoll:
		return "poll"
	case ByExpiry:
		return "expiry"
	case BySubscription:
		return "subscription"
	case ByMessage:
		return "message"
	case ByHandoff:
		return "handoff"
	}
	return "none"
}

// phase is the state of a waiter with regard to handoffs.
type phase uint8

const (
	running   phase = iota // it makes attempts itself, or has left
	parked                 // it can receive a handoff
	receiving              // it is receiving a handoff
)

// park waits until another attempt may succeed, for at most d; 0 is without limit. If d passes it
// returns the reason timed. It returns an attempt that was handed off meanwhile, or an error if the
// context ended or the Locker was closed.
func (w *Waiter) park(d time.Duration, timed Reason) (*vote.Round, Reason, error) {
	w.contender.Waits()
	woken := w.startPark()
	var err error
	if woken == none {
		var over bool
		if over, err = w.table.sleep(w.ctx, w.done, d, w.wake); over {
			woken = timed
		}
	}
	return w.finishPark(woken, err)
}

// Sleep waits for d. It returns early with the context's cause, or with Config.ErrClosed.
func (t *Table) Sleep(ctx context.Context, d time.Duration) error {
	_, err := t.sleep(ctx, ctx.Done(), d, nil)
	return err
}

// sleep waits for d, or until it is woken; 0 is without limit. over reports that d has passed.
func (t *Table) sleep(ctx context.Context, done <-chan struct{}, d time.Duration, wake <-chan struct{}) (over bool, err error) {
	var expired <-chan struct{}
	if d > 0 {
		after, stop := timer.After(t.cfg.Clock, d)
		defer stop()
		expired = after
	}
	select {
	case <-wake:
		return false, nil
	case <-expired:
		return true, nil
	case <-done:
		return false, context.Cause(ctx)
	case <-t.cfg.Closing:
		return false, t.cfg.ErrClosed
	}
}

func (w *Waiter) startPark() (woken Reason) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if w.wake == nil {
		w.wake = signal.New()
	}
	w.phase = parked
	return w.woken
}

func (w *Waiter) finishPark(woken Reason, err error) (*vote.Round, Reason, error) {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for w.phase == receiving && w.handoff == nil { // receive is about to be called
		t.mu.Unlock()
		<-w.wake
		t.mu.Lock()
	}
	attempt := w.handoff
	w.phase, w.handoff = running, nil
	w.poll = nil // its answers must not end a later park
	if attempt != nil {
		return attempt, ByHandoff, nil // the receiver of the attempt checks the context
	}
	return nil, max(woken, w.woken), err
}

// wakeLocked wakes the waiter.
func (w *Waiter) wakeLocked(why Reason) {
	w.woken = max(w.woken, why)
	w.wake.Set()
}

// dropWakeupLocked discards a wake-up.
func (w *Waiter) dropWakeupLocked() {
	w.woken = none
	w.wake.Clear()
}

// clearSignalsLocked discards the announcements and wake-ups received so far.
func (w *Waiter) clearSignalsLocked() {
	if w.due != 0 {
		w.planLocked(0)
	}
	for _, c := range w.channels { // what other nodes announce from now on may be what the attempt needed
		if c.announced < w.table.majority() {
			c.announced = 0
		}
	}
	w.dropWakeupLocked()
}
