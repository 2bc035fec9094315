package redlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool"
)

// waitTable is what a Locker knows of who holds and who waits for names in this process, and
// hears of releases in others (docs/rules.md rules 19 to 21). Of those in line for a name only
// the head is here.
type waitTable struct {
	l *Locker

	mu       sync.Mutex // guards what follows and what waiter says it guards; nobody is called under it but alarms and subscriptions
	names    map[string]*nameState
	channels map[string]*releaseChannel // by channel
	subs     []*pool.Subscription
	closed   bool
	freeList []*nameState // to be used again: most names are taken alone, and at once given back
}

func newWaitTable(l *Locker) *waitTable {
	return &waitTable{l: l, names: make(map[string]*nameState), channels: make(map[string]*releaseChannel)}
}

// noteAcquired notes that a lock is held here.
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

// noteEnded notes that a lock is not held here any more, though its keys may stand: those who
// wait for it try for themselves.
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

// handoffPlan is how a lock that is given back goes on.
type handoffPlan struct {
	attempt        *Lock   // whose acquire goes behind the release; nil: nobody's
	waiter         *waiter // who is told of it once it was submitted
	sameNames      bool    // it takes what is released and nothing else: there is nothing to announce
	countWaiters   bool    // the release counts who else waits, and announces nothing
	ownSubscribers int     // of our own subscriptions that would hear an announcement
}

// planHandoff finds who of this process gets the lock next, before its release is sent.
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

// pickNextLocked takes the lock's names from it, and picks a head that can have all of its own
// names now, unless it is the turn of another process. Others try for themselves. Called
// under mu.
func (wt *waitTable) pickNextLocked(k *Lock, now clock.Instant) (next *waiter, h handoffPlan) {
	due := false
	for _, name := range k.names {
		p := wt.names[name]
		if p == nil || p.holder != k {
			continue
		}
		p.holder = nil
		h.countWaiters = p.holdEnds(now) || h.countWaiters // it looks who else waits
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

// canReceiveLocked reports whether nobody here holds any of a head's names, and it waits. Called
// under mu, on another goroutine than the head's. So it does not call the context, which may
// be the user's, or a lock's that ends when it is asked.
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

// heldLocallyLocked reports whether somebody of this process holds one of the names. Called under mu.
func (wt *waitTable) heldLocallyLocked(names []string) bool {
	for _, name := range names {
		if p := wt.names[name]; p != nil && p.holder != nil {
			return true
		}
	}
	return false
}

// ownSubscribersLocked is how many of those who hear of each name's release are ourselves: one, when all
// names have a subscription that stands on a majority of the nodes. One too many would
// hide somebody who waits elsewhere; one too few lets others go first who are not there.
// Called under mu.
func (wt *waitTable) ownSubscribersLocked(names []string) int {
	for _, name := range names {
		if t := wt.channelOfLocked(name); t == nil || !t.confirmedOnMajorityLocked() {
			return 0
		}
	}
	return 1
}

// noteRemoteWaiters notes whether others wait for the names of a lock that was given back.
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
