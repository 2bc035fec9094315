package waiting

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// Config is what a Table needs of its Locker.
type Config struct {
	Nodes   []command.Node
	Clock   clock.Clock
	Timers  *timer.Queue
	Prefix  string  // of the names' keys
	Backoff Backoff // the bounds of the pause between attempts
	// PollTimeout is how long a waiter waits for the answers to a poll.
	PollTimeout time.Duration
	// OutageLeft returns how much longer a node that answered with an error will not vote. It is
	// verdict.NoExpiry if that is unknown.
	OutageLeft func(error) time.Duration
	Closing    <-chan struct{} // ends every wait
	ErrClosed  error           // the error of a wait that Closing ended
}

// Table records which locks are held and which waiters are queued in this process, by name. It also
// receives the release announcements of other processes. Its methods are safe for concurrent use.
type Table struct {
	cfg Config

	// mu guards the fields below, the states in them, and those fields of Waiter that name it.
	mu       sync.Mutex
	names    map[string]*nameState
	channels channels
	closed   bool
}

// NewTable returns an empty Table.
func NewTable(cfg Config) *Table {
	t := &Table{cfg: cfg, names: make(map[string]*nameState)}
	t.channels = channels{
		table: t, byName: make(map[string]*channel),
		shared: channel{name: command.WaitersChannel(cfg.Prefix)},
	}
	return t
}

// Hold is a lock that this process holds. Its fields are constant while the Table knows it.
type Hold struct {
	Names     []string      // distinct
	Began     clock.Instant // start of the acquisition
	HandedOff bool          // by the previous holder, in this process
	forgotten bool          // by the Table: no state of its names was left when it was released
	Owner     any           // of the lock
}

// nameState is the state of one name. It exists while a lock of this process holds the name or a
// waiter is queued for it, and for a while after that if other processes wait.
type nameState struct {
	table  *Table
	name   string
	holder *Hold
	lasted time.Duration // the last acquisition that succeeded
	outage error         // why the last attempt reached no quorum of nodes; nil if it did
	queue
	streak

	linger *timer.Timer // removes a state that lingers for its streak
}

// again returns how soon this process asks for the name again if it does so at once: when its release was answered. Afterwards
// it must not count as a waiter any more.
func (s *nameState) again() time.Duration { return min(Linger, AgainAfter+4*s.lasted) }

// Holder returns a lock of this process that holds one of the names, or nil.
func (t *Table) Holder(names []string) *Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holderLocked(names)
}

func (t *Table) holderLocked(names []string) *Hold {
	for _, name := range names {
		if s := t.names[name]; s != nil && s.holder != nil {
			return s.holder
		}
	}
	return nil
}

// Close ends the subscriptions. No lock is held and no waiter waits any more.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	subs := t.channels.subs
	for _, c := range t.channels.byName {
		t.cfg.Timers.Clear(&c.timer)
	}
	for _, s := range t.names {
		t.removeIfIdleLocked(s)
	}
	t.mu.Unlock()
	for _, sub := range subs {
		sub.Close()
	}
}

// getOrCreateLocked returns the state of a name, and makes it if necessary.
func (t *Table) getOrCreateLocked(name string) *nameState {
	s := t.names[name]
	if s != nil {
		return s
	}
	s = &nameState{table: t, name: name}
	t.names[name] = s
	return s
}

// removeIfIdleLocked removes the state of a name that is neither held nor waited for. If other
// processes wait it does so only later, so that the streak continues if this process acquires the
// name again soon.
func (t *Table) removeIfIdleLocked(s *nameState) {
	if s.holder != nil || !s.empty() {
		return
	}
	s.outage = nil
	if s.lingersLocked() && !t.closed {
		if s.linger == nil {
			s.linger = new(timer.Timer)
		}
		t.cfg.Timers.Set(s.linger, t.now().Add(Linger), s)
		return
	}
	delete(t.names, s.name)
	if s.linger != nil {
		t.cfg.Timers.Clear(s.linger)
	}
}

// lingersLocked reports whether other processes wait, or were seen a short time ago.
func (s *nameState) lingersLocked() bool { return s.others || s.seenAt != 0 }

// Fire removes the state of a name that has been idle for a while.
func (s *nameState) Fire(*timer.Timer) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.holder == nil && s.empty() && s.table.names[s.name] == s {
		s.others, s.seenAt = false, 0
		s.table.removeIfIdleLocked(s)
	}
}

// Queued returns how many waiters are queued for a name, including the head. It is for tests.
func (t *Table) Queued(name string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.names[name]; s != nil {
		for e := s.first; e != nil; e = e.next {
			n++
		}
	}
	return n
}

// Size returns how many names have a state, and how many channels a subscription. It is for tests.
func (t *Table) Size() (names, channels int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.names), len(t.channels.byName)
}

// Sleep waits for d. It returns early with the context's cause, or with Config.ErrClosed.
func (t *Table) Sleep(ctx context.Context, d time.Duration) error {
	_, err := t.sleep(ctx.Done(), d, nil)
	return causeOf(ctx, err)
}

// errDone is the error of a sleep whose context has ended.
var errDone = errors.New("done")

// causeOf returns the cause of a context in place of errDone. It may call the user's code, which may panic.
func causeOf(ctx context.Context, err error) error {
	if err == errDone { //nolint:errorlint // it is never wrapped
		return context.Cause(ctx)
	}
	return err
}

// sleep waits for d, or until it is woken; verdict.NoExpiry is without limit. over reports that d has passed.
func (t *Table) sleep(done <-chan struct{}, d time.Duration, wake <-chan struct{}) (over bool, err error) {
	var expired <-chan struct{}
	if d != verdict.NoExpiry {
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
		return false, errDone
	case <-t.cfg.Closing:
		return false, t.cfg.ErrClosed
	}
}

// maxPause returns the longest time between two polls of a subscribed waiter.
func (t *Table) maxPause() time.Duration { return max(MaxPollPause, t.cfg.Backoff.Max) }

// pollPause returns the time to the next poll. soon is for a holder that may not announce its release, or of which
// nothing is known. The first pause spreads waiters that were woken together, and no pause is always the same, so
// that polls do not always meet the holds of another process.
func (t *Table) pollPause(first, soon bool) time.Duration {
	switch longest := t.maxPause(); {
	case soon:
		return max(t.cfg.Backoff.Min, MinForeignPause+rand.N(MaxForeignPause-MinForeignPause))
	case first:
		return longest*3/4 + rand.N(longest/4)
	default:
		return longest*15/16 + rand.N(longest/16)
	}
}

func (t *Table) majority() int { return quorum.Majority(len(t.cfg.Nodes)) }

func (t *Table) isMajority(nodes quorum.Nodes) bool { return nodes.Len() >= t.majority() }

func (t *Table) now() clock.Instant { return t.cfg.Clock.Now() }

// NoteOutage tells those that wait behind a waiter why its attempt reached no quorum of nodes; nil: it reached one. The
// outage ends the wait of those that have FailFast.
func (t *Table) NoteOutage(w *Waiter, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.noteOutageLocked(why)
}

// Outage returns why the last attempt for one of a waiter's names reached no quorum, or nil.
func (t *Table) Outage(w *Waiter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.outageLocked()
}

// Outage is the error of a waiter with FailFast whose names had an outage.
type Outage struct{ Why error }

// Error returns the text of the attempt's error.
func (o Outage) Error() string { return o.Why.Error() }

// queue is the queue of one name. Table.mu guards it.
type queue struct {
	first, last *entry
}

// entry is a waiter in the queue of one name.
type entry struct {
	waiter     *Waiter
	state      *nameState
	prev, next *entry
}

func (q *queue) empty() bool { return q.first == nil }

// head returns the first waiter if it is also at the head of its other queues, otherwise nil.
func (q *queue) head() *Waiter {
	if q.first == nil || !q.first.waiter.atHead() {
		return nil
	}
	return q.first.waiter
}

// place is where a waiter stands in the queues of its names. Table.mu guards it. The waiter's own goroutine alone
// changes entries, and so may read its length without the mutex.
type place struct {
	entries []entry  // empty: it has left
	single  [1]entry // backs entries for one name, the usual case
	ahead   int      // number of queues in which other waiters are ahead
}

// enterLocked appends the waiter to the queues of its names, in one step, so that waiters for
// overlapping sets of names do not wait for each other.
func (p *place) enterLocked(w *Waiter) {
	p.entries = p.single[:0]
	if len(w.names) > len(p.single) {
		p.entries = make([]entry, 0, len(w.names)) // entries must not move
	}
	for _, name := range w.names {
		s := w.table.getOrCreateLocked(name)
		p.entries = append(p.entries, entry{waiter: w, state: s, prev: s.last})
		e := &p.entries[len(p.entries)-1]
		if s.last == nil {
			s.first = e
		} else {
			s.last.next = e
			p.ahead++
		}
		s.last = e
	}
}

// noteOutageLocked is Table.NoteOutage.
func (p *place) noteOutageLocked(why error) {
	for i := range p.entries {
		e := &p.entries[i]
		if e.state.outage = why; why == nil || e.state.holder != nil {
			e.state.outage = nil // also if the name was acquired meanwhile
			continue
		}
		for e = e.next; e != nil; e = e.next {
			if e.waiter.FailFast {
				e.waiter.wake.Set()
			}
		}
	}
}

// outageLocked is Table.Outage.
func (p *place) outageLocked() error {
	for i := range p.entries {
		if why := p.entries[i].state.outage; why != nil {
			return why
		}
	}
	return nil
}

// atHead reports whether the waiter is at the head of all its queues. It then stays there until it
// leaves.
func (p *place) atHead() bool { return len(p.entries) > 0 && p.ahead == 0 }

// leaveLocked removes the waiter from its queues, at any position, and lets the next ones advance.
func (p *place) leaveLocked() {
	for i := range p.entries {
		p.entries[i].remove()
	}
	*p = place{} // keeps no neighbour alive
}

func (e *entry) remove() {
	s := e.state
	if e.next == nil {
		s.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
		return
	}
	if s.first = e.next; s.first != nil {
		if !s.first.waiter.inheritLocked(e.waiter) {
			s.outage = nil // the next one finds out, and may have to wait for another name first
			s.first.waiter.advanceLocked()
		}
	} else if s.joined != 0 { // most have not waited, and need not read the clock
		s.givesUp(s.table.now())
	}
	s.table.removeIfIdleLocked(s)
}
