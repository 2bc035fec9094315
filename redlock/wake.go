package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// wakeReason is why a waiter continues. Larger reasons take precedence.
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

// String returns the reason as hooks receive it.
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
		return "handoff"
	}
	return "none"
}

// park waits until another attempt may succeed, for at most d; 0 is without limit. If d passes it
// returns the reason timed. It returns an attempt that was handed off meanwhile, or an error if the
// context ended or the Locker was closed.
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

// sleep waits for d, or until it is woken; 0 is without limit. It returns early with the context's
// cause or ErrClosed. over reports that d has passed.
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
	for v.state == receiving && v.handoff == nil { // deliverHandoff is about to be called
		ws.mu.Unlock()
		<-v.wake
		ws.mu.Lock()
	}
	k := v.handoff
	v.state, v.handoff = running, nil
	v.poll = nil // its answers must not end a later park
	if k != nil {
		return k, byHandoff, nil // the receiver of the attempt checks the context
	}
	return nil, max(woken, v.woken), err
}

// startHandoff begins an attempt for the chosen waiter. It returns nil if that is not possible. The
// caller submits the acquire, and only then calls deliverHandoff. If the waiter gave up
// before that, no waiter would learn of the release.
func (v *waiter) startHandoff() *Lock {
	k, err := v.l.newAttempt(v.ctx, v.req, v.l.now())
	if err != nil {
		v.deliverHandoff(nil)
		return nil
	}
	k.handedOff = true
	return k
}

// deliverHandoff passes the attempt to the waiter after it was submitted.
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
