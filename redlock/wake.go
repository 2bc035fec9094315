package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// wakeReason is why a waiter goes on.
type wakeReason uint8

const (
	none     wakeReason = iota
	byAnswer            // a poll was answered; not reported to hooks
	byPoll
	byExpiry
	bySubscription
	byMessage
	byHandoff
)

// String names the reason as hooks are told it.
func (w wakeReason) String() string {
	switch w {
	case byPoll:
		return "poll"
	case byExpiry:
		return "expiry"
	case bySubscription:
		return "subscription"
	case byMessage:
		return "message"
	case byHandoff:
		return "hand-over"
	}
	return "none"
}

// park waits until there may be something to gain from an attempt, and for d at most; 0 is
// without end. It returns an attempt that was begun for it meanwhile, or an error when
// the context or the Locker ended.
func (v *waiter) park(d time.Duration, timed wakeReason) (*Lock, wakeReason, error) {
	wake, woken := v.startPark()
	var err error
	if woken == none {
		var over bool
		if over, err = v.sleep(d, wake); over {
			woken = timed
		}
	}
	return v.finishPark(woken, err)
}

// sleep waits for d, 0 being without end, or to be woken. It ends early with the
// context's cause, or ErrClosed. Over tells that d has passed.
func (v *waiter) sleep(d time.Duration, wake <-chan struct{}) (over bool, err error) {
	var timer <-chan struct{}
	if d > 0 {
		t, stop := clock.After(v.l.set.clock, d)
		defer stop()
		timer = t
	}
	select {
	case <-wake:
		return false, nil
	case <-timer:
		return true, nil
	case <-v.done:
		return false, context.Cause(v.ctx)
	case <-v.l.closing:
		return false, ErrClosed
	}
}

func (v *waiter) startPark() (wake <-chan struct{}, woken wakeReason) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if v.wake == nil {
		v.wake = make(chan struct{}, 1)
	}
	v.state = parked
	return v.wake, v.woken
}

func (v *waiter) finishPark(woken wakeReason, err error) (*Lock, wakeReason, error) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for v.state == receiving && v.handoff == nil { // by a goroutine that is about to say how it went
		ws.mu.Unlock()
		<-v.wake
		ws.mu.Lock()
	}
	k := v.handoff
	v.state, v.handoff = running, nil
	v.poll = nil // its answers wake no later rest
	if k != nil {
		return k, byHandoff, nil // whoever takes it looks at the context
	}
	return nil, max(woken, v.woken), err
}

// startHandoff begins an attempt for a waiter that was chosen; nil when that can't be. Its
// acquire is submitted by whoever calls this, and the waiter told of it afterwards
// (deliverHandoff): one that gave it up before would leave a release that nobody hears of.
func (v *waiter) startHandoff() *Lock {
	k, err := v.l.newAttempt(v.ctx, v.req, v.l.now())
	if err != nil {
		v.deliverHandoff(nil)
		return nil
	}
	k.handedOff = true
	return k
}

// deliverHandoff tells the waiter of its attempt, once that was submitted.
func (v *waiter) deliverHandoff(k *Lock) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if k == nil {
		v.state = running
	}
	v.handoff = k
	v.wakeForLocked(byHandoff)
}
