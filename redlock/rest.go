package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// wakeUp is why a waiter goes on.
type wakeUp uint8

const (
	asleep   wakeUp = iota
	byAnswer        // a poll was answered; not reported to hooks
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

// rest waits until there may be something to gain from an attempt, and for d at most; 0 is
// without end. It returns an attempt that was begun for it meanwhile, or an error when
// the context or the Locker ended.
func (v *waiter) rest(d time.Duration, timed wakeUp) (*Lock, wakeUp, error) {
	wake, woken := v.beginRest()
	var err error
	if woken == asleep {
		var over bool
		if over, err = v.sleep(d, wake); over {
			woken = timed
		}
	}
	return v.endRest(woken, err)
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

func (v *waiter) beginRest() (wake <-chan struct{}, woken wakeUp) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if v.wake == nil {
		v.wake = make(chan struct{}, 1)
	}
	v.state = waiting
	return v.wake, v.woken
}

func (v *waiter) endRest(woken wakeUp, err error) (*Lock, wakeUp, error) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for v.state == launching && v.launched == nil { // by a goroutine that is about to say how it went
		ws.mu.Unlock()
		<-v.wake
		ws.mu.Lock()
	}
	k := v.launched
	v.state, v.launched = busy, nil
	v.poll = nil // its answers wake no later rest
	if k != nil {
		return k, byHandOver, nil // whoever takes it looks at the context
	}
	return nil, max(woken, v.woken), err
}

// launch begins an attempt for a waiter that was chosen; nil when that can't be. Its
// acquire is submitted by whoever calls this, and the waiter told of it afterwards
// (launchedAs): one that gave it up before would leave a release that nobody hears of.
func (v *waiter) launch() *Lock {
	k, err := v.l.prepare(v.ctx, v.wish, v.l.now())
	if err != nil {
		v.launchedAs(nil)
		return nil
	}
	k.passedOn = true
	return k
}

// launchedAs tells the waiter of its attempt, once that was submitted.
func (v *waiter) launchedAs(k *Lock) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if k == nil {
		v.state = busy
	}
	v.launched = k
	v.stir(byHandOver)
}
