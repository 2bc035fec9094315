package redlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool"
)

// waitTable records which locks are held and which waiters are queued in this process, by name. It
// also receives the release announcements of other processes (docs/dev/rules.md rules 19 to 21). Of the
// waiters in a name's queue it knows only the head.
type waitTable struct {
	l *Locker

	// mu guards the fields below, and those fields of waiter that name it. Under it only alarms and
	// subscriptions are called.
	mu       sync.Mutex
	names    map[string]*nameState
	channels map[string]*releaseChannel // by channel name
	subs     []*pool.Subscription
	closed   bool
	freeList []*nameState // for reuse: most names are acquired without contention and released soon
}

func newWaitTable(l *Locker) *waitTable {
	return &waitTable{l: l, names: make(map[string]*nameState), channels: make(map[string]*releaseChannel)}
}

// noteAcquired records a lock that is held here.
func (wt *waitTable) noteAcquired(k *Lock) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	for _, name := range k.names {
		p := wt.getOrCreateLocked(name)
		p.holder = k
		if !k.handedOff {
			p.holdBegins(k.began, 3*wt.l.set.minBackoff)
		}
	}
}

// noteEnded records that a lock is no longer held here, although its keys may remain. It wakes the
// heads that wait for its names, which then attempt for themselves.
func (wt *waitTable) noteEnded(k *Lock) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	for _, name := range k.names {
		if p := wt.names[name]; p != nil {
			if p.holder == k {
				p.holder = nil
			}
			if p.head != nil {
				p.head.wakeForLocked(byHandoff)
			}
			wt.removeIfIdleLocked(p)
		}
	}
}

// handoffPlan is what a release does for the next holder.
type handoffPlan struct {
	attempt        *Lock   // its acquire is submitted right after the release; nil: there is none
	waiter         *waiter // gets the attempt once it was submitted
	sameNames      bool    // the attempt takes exactly the released names: no announcement
	countWaiters   bool    // the release counts remote waiters and announces nothing
	ownSubscribers int     // our own subscriptions that would receive an announcement
}

// planHandoff chooses the next holder in this process, before the release is sent.
func (wt *waitTable) planHandoff(k *Lock, now clock.Instant) handoffPlan {
	wt.mu.Lock()
	next, h := wt.pickNextLocked(k, now)
	wt.mu.Unlock()
	if next == nil {
		return h
	}
	h.sameNames = slices.Equal(next.req.names, k.names)
	h.attempt, h.waiter = next.startHandoff(), next
	return h
}

// pickNextLocked ends the hold of the lock's names. It picks a head that can have all of its names
// now, unless another process must have its turn first. It wakes the other heads, which attempt for
// themselves.
func (wt *waitTable) pickNextLocked(k *Lock, now clock.Instant) (next *waiter, h handoffPlan) {
	due := false
	for _, name := range k.names {
		p := wt.names[name]
		if p == nil || p.holder != k {
			continue
		}
		p.holder = nil
		h.countWaiters = p.holdEnds(now) || h.countWaiters // the release counts remote waiters
		due = due || p.mustYield
	}
	h.ownSubscribers = wt.ownSubscribersLocked(k.names)
	for _, name := range k.names {
		p := wt.names[name]
		if p == nil {
			continue
		}
		switch head := p.head; {
		case head == nil || head == next:
		case next == nil && !due && wt.canReceiveLocked(head):
			next = head
			next.state = receiving
		default:
			head.wakeForLocked(byHandoff)
		}
		wt.removeIfIdleLocked(p)
	}
	return next, h
}

// canReceiveLocked reports whether a head waits and no lock of this process holds any of its names.
// It runs on another goroutine than the waiter's. So it must not call the waiter's context, which
// may be the user's or that of a lock that ends when it is queried.
func (wt *waitTable) canReceiveLocked(head *waiter) bool {
	if head.state != parked {
		return false
	}
	select {
	case <-head.done:
		return false
	default:
	}
	return !wt.heldLocallyLocked(head.req.names)
}

// heldLocallyLocked reports whether a lock of this process holds one of the names.
func (wt *waitTable) heldLocallyLocked(names []string) bool {
	for _, name := range names {
		if p := wt.names[name]; p != nil && p.holder != nil {
			return true
		}
	}
	return false
}

// ownSubscribersLocked returns how many subscribers of each name's channel are this Locker itself.
// It is 1 if every name has a subscription that is confirmed on a majority of the nodes. A count
// that is too high would hide a waiter elsewhere. A count that is too low makes this process yield
// to waiters that do not exist.
func (wt *waitTable) ownSubscribersLocked(names []string) int {
	for _, name := range names {
		if t := wt.channelOfLocked(name); t == nil || !t.confirmedOnMajorityLocked() {
			return 0
		}
	}
	return 1
}

// noteRemoteWaiters records whether other processes wait for the names of a released lock.
func (wt *waitTable) noteRemoteWaiters(k *Lock, others bool) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	for _, name := range k.names {
		p := wt.names[name]
		switch {
		case p == nil && !others:
			continue
		case p == nil:
			p = wt.getOrCreateLocked(name)
			p.streak, p.streakStart, p.releasedAt = 1, k.began, k.endedAt
		}
		p.remoteWaiters = others
		wt.removeIfIdleLocked(p)
	}
}
