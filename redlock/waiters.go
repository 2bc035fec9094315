package redlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool"
)

// waiters is what a Locker knows of who holds and who waits for names in this process, and
// hears of releases in others (docs/rules.md rules 19 to 21). Of those in line for a name only
// the head is here.
type waiters struct {
	l *Locker

	mu     sync.Mutex // guards what follows and what waiter says it guards; nobody is called under it but alarms and subscriptions
	names  map[string]*place
	topics map[string]*topic // by channel
	ears   []*pool.Subscription
	closed bool
	spare  []*place // to be used again: most names are taken alone, and at once given back
}

func newWaiters(l *Locker) *waiters {
	return &waiters{l: l, names: make(map[string]*place), topics: make(map[string]*topic)}
}

// took notes that a lock is held here.
func (ws *waiters) took(k *Lock) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range k.names {
		p := ws.at(name)
		p.holder = k
		if !k.passedOn {
			p.begin(k.began, 3*ws.l.set.backoffMin)
		}
	}
}

// left notes that a lock is not held here any more, though its keys may stand: those who
// wait for it try for themselves.
func (ws *waiters) left(k *Lock) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range k.names {
		if p := ws.names[name]; p != nil {
			if p.holder == k {
				p.holder = nil
			}
			if p.head != nil {
				p.head.stir(byHandOver)
			}
			ws.tidy(p)
		}
	}
}

// handing is how a lock that is given back goes on.
type handing struct {
	next *Lock   // whose acquire goes behind the release; nil: nobody's
	to   *waiter // who is told of it once it was submitted
	all  bool    // it takes what is released and nothing else: there is nothing to announce
	pass bool    // the release counts who else waits, and announces nothing
	own  int     // of our own subscriptions that would hear an announcement
}

// handOver finds who of this process gets the lock next, before its release is sent.
func (ws *waiters) handOver(k *Lock, now clock.Instant) handing {
	ws.mu.Lock()
	next, h := ws.choose(k, now)
	ws.mu.Unlock()
	if next == nil {
		return h
	}
	h.all = slices.Equal(next.wish.names, k.names)
	h.next, h.to = next.launch(), next
	return h
}

// choose takes the lock's names from it, and picks a head that can have all of its own
// names now, unless it is the turn of another process. Others try for themselves. Called
// under mu.
func (ws *waiters) choose(k *Lock, now clock.Instant) (next *waiter, h handing) {
	due := false
	for _, name := range k.names {
		p := ws.names[name]
		if p == nil || p.holder != k {
			continue
		}
		p.holder = nil
		h.pass = p.end(now) || h.pass // it looks who else waits
		due = due || p.due
	}
	h.own = ws.own(k.names)
	for _, name := range k.names {
		p := ws.names[name]
		if p == nil {
			continue
		}
		switch head := p.head; {
		case head == nil || head == next:
		case next == nil && !due && ws.free(head):
			next = head
			next.state = launching
		default:
			head.stir(byHandOver)
		}
		ws.tidy(p)
	}
	return next, h
}

// free reports whether nobody here holds any of a head's names, and it waits. Called
// under mu, on another goroutine than the head's. So it does not call the context, which may
// be the user's, or a lock's that ends when it is asked.
func (ws *waiters) free(head *waiter) bool {
	if head.state != waiting {
		return false
	}
	select {
	case <-head.done:
		return false
	default:
	}
	return !ws.held(head.wish.names)
}

// held reports whether somebody of this process holds one of the names. Called under mu.
func (ws *waiters) held(names []string) bool {
	for _, name := range names {
		if p := ws.names[name]; p != nil && p.holder != nil {
			return true
		}
	}
	return false
}

// own is how many of those who hear of each name's release are ourselves: one, when all
// names have a subscription that stands on a majority of the nodes. One too many would
// hide somebody who waits elsewhere; one too few lets others go first who are not there.
// Called under mu.
func (ws *waiters) own(names []string) int {
	for _, name := range names {
		if t := ws.topic(name); t == nil || !t.standing() {
			return 0
		}
	}
	return 1
}

// counted notes whether others wait for the names of a lock that was given back.
func (ws *waiters) counted(k *Lock, others bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range k.names {
		p := ws.names[name]
		switch {
		case p == nil && !others:
			continue
		case p == nil:
			p = ws.at(name)
			p.turns, p.since, p.freed = 1, k.began, k.endedAt
		}
		p.others = others
		ws.tidy(p)
	}
}
