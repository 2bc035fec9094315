package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// A lock is passed on inside a process for so many times in a row, and for so long, before
// other processes that wait for it get their turn (DESIGN.md rule 21).
const (
	turnMost = 16
	turnLong = 50 * time.Millisecond
)

// waiters is what a Locker knows of who holds and who waits for names in this process, and
// hears of releases in others (DESIGN.md rules 19 to 21). Of those in line for a name only
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

// place is a name's: while somebody of this process holds it or waits for it.
type place struct {
	holder *Lock
	head   *waiter
	turns  int           // how often in a row it was passed on
	since  clock.Instant // from when on
	others bool          // somebody of another process waits, as far as the nodes said last
	vain   int           // how often in a row others were given their turn and did not take it
}

func newWaiters(l *Locker) *waiters {
	return &waiters{l: l, names: make(map[string]*place), topics: make(map[string]*topic)}
}

// at finds or makes a name's place. Called under mu.
func (ws *waiters) at(name string) *place {
	p := ws.names[name]
	if p != nil {
		return p
	}
	if last := len(ws.spare) - 1; last >= 0 {
		p, ws.spare = ws.spare[last], ws.spare[:last]
	} else {
		p = &place{}
	}
	ws.names[name] = p
	return p
}

// tidy forgets a place that nobody needs. Called under mu.
func (ws *waiters) tidy(name string) {
	p := ws.names[name]
	if p == nil || p.holder != nil || p.head != nil {
		return
	}
	delete(ws.names, name)
	if len(ws.spare) < spareMost {
		*p = place{}
		ws.spare = append(ws.spare, p)
	}
}

// spareMost bounds what is kept to be used again.
const spareMost = 256

// took notes that a lock is held here.
func (ws *waiters) took(k *Lock) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range k.names {
		p := ws.at(name)
		p.holder = k
		if !k.passedOn {
			p.turns, p.since = 0, k.began
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
			ws.tidy(name)
		}
	}
}

// handing is how a lock that is given back goes on.
type handing struct {
	next *Lock // whose acquire goes behind the release; nil: nobody's
	all  bool  // it takes what is released and nothing else: there is nothing to announce
	pass bool  // the release counts who else waits, and announces nothing
	own  int   // of our own subscriptions that would hear an announcement
}

// handOver finds who of this process gets the lock next, before its release is sent.
func (ws *waiters) handOver(k *Lock) handing {
	now := ws.l.now()
	ws.mu.Lock()
	next, h := ws.choose(k, now)
	ws.mu.Unlock()
	if next == nil {
		return h
	}
	h.all = slices.Equal(next.wish.names, k.names)
	if h.next = next.launch(); h.next != nil {
		h.next.passedOn = true
	}
	return h
}

// choose takes the lock's names from it, and picks a head that can have all of its own
// names now. Others try for themselves. Called under mu.
func (ws *waiters) choose(k *Lock, now clock.Instant) (next *waiter, h handing) {
	for _, name := range k.names {
		if p := ws.names[name]; p != nil && p.holder == k {
			p.holder = nil
		}
	}
	for _, name := range k.names {
		p := ws.names[name]
		if p == nil {
			continue
		}
		if len(ws.topics) > 0 && ws.topics[wire.FreePrefix+ws.l.set.prefix+name] != nil { // mostly there is none to look up
			h.own = 1
		}
		head := p.head
		switch {
		case head == nil || head == next:
		case next == nil && ws.free(head) && ws.ours(p, now, &h):
			next = head
			next.state = launching
		default:
			head.stir(byHandOver)
		}
		ws.tidy(name)
	}
	return next, h
}

// free reports whether nobody here holds any of a head's names, and it waits. Called
// under mu. So it does not ask the context for Err: that of a lock may end the lock, which
// is to be handed over then, too.
func (ws *waiters) free(head *waiter) bool {
	if head.state != waiting {
		return false
	}
	select {
	case <-head.ctx.Done():
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

// ours reports whether a name may stay in this process. Called under mu.
func (ws *waiters) ours(p *place, now clock.Instant, h *handing) bool {
	p.turns++
	if p.turns < turnMost && now.Sub(p.since) < turnLong {
		return true
	}
	p.turns, p.since = 0, now
	if p.others {
		p.vain = min(p.vain+1, 6)
		p.head.yields = p.vain
		return false
	}
	h.pass = true // and looks who else waits
	return true
}

// counted notes whether others wait for the names of a lock that was given back.
func (ws *waiters) counted(k *Lock, others bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range k.names {
		if p := ws.names[name]; p != nil {
			p.others = others
		}
	}
}
