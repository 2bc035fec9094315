package redlock

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/signal"
)

// registry knows each lock of a Locker from before its first command until every node has answered its undo, it was
// detached, or Close gave it up. Its methods are safe for concurrent use. The zero registry is closed.
type registry struct {
	closing chan struct{} // closed by close
	asking  atomic.Int32  // queries for the holders of names that were lost, which Close waits for

	mu    sync.Mutex       // guards the fields below; nothing is called under it
	locks map[string]*hold // by token: in acquisition, held, or being undone
	// A lock has left locks, a query for a holder has ended or, while Close waits, an undo is decided.
	changed   signal.Broadcast
	left      leftover // locks that were given up
	finishing bool     // a call of Close has ended its wait
}

// leftover counts locks whose keys were not deleted on every node.
type leftover struct {
	locks int
	until clock.Instant // when the last of the keys expires
}

func (l *leftover) add(until, now clock.Instant) {
	if now.Before(until) {
		l.locks, l.until = l.locks+1, max(l.until, until)
	}
}

// isClosed reports whether nothing is admitted any more.
func (r *registry) isClosed() bool { return r.closing == nil || isOver(r.closing) }

// isOver reports whether a channel is closed.
func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// add admits a lock. It returns ErrClosed, or ErrAlreadyHeld if a lock with that token is known.
func (r *registry) add(h *hold) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.isClosed():
		return ErrClosed
	case r.locks[h.args.Token()] != nil:
		return ErrAlreadyHeld
	}
	r.locks[h.args.Token()] = h
	return nil
}

// remove forgets a lock whose last command has been answered or abandoned.
func (r *registry) remove(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locks[h.args.Token()] == h {
		delete(r.locks, h.args.Token())
	}
	r.changed.Wake()
}

// all lists the locks.
func (r *registry) all() []*hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.locks))
}

// has reports whether a lock is known.
func (r *registry) has(h *hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locks[h.args.Token()] == h
}

// close ends admission.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isClosed() {
		close(r.closing)
	}
}

// next returns a channel that is closed at the next change, and whether Close still waits for the lock.
func (r *registry) next(h *hold) (change <-chan struct{}, awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed.Next(), !r.finishing && r.locks[h.args.Token()] == h
}

// change returns a channel that is closed at the next change.
func (r *registry) change() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed.Next()
}

// wake ends what waits for the next change.
func (r *registry) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Wake()
}

// giveUp forgets a lock whose undo Close no longer waits for. A call of Close that ends counts those that are known.
func (r *registry) giveUp(h *hold, now clock.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.finishing && r.locks[h.args.Token()] == h {
		delete(r.locks, h.args.Token())
		r.left.add(h.keys.undo.Load().Request.NotAfter, now)
	}
}

// finish reports whether this call of Close is the first that ends, and ends the waiting of the others.
func (r *registry) finish() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.finishing
	r.finishing = true
	r.changed.Wake()
	return first
}

// leftover counts the locks that were given up.
func (r *registry) leftover() leftover {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// asked records the end of a query for the holder of a lost name.
func (r *registry) asked() {
	r.asking.Add(-1)
	r.wake()
}

// named adds the names to the ErrClosed of this Locker. Another one's may be the cause of a context.
func (r *registry) named(err error, names []string) error {
	if err == ErrClosed && r.isClosed() { //nolint:errorlint // an error around it has the names
		return closedError(names)
	}
	return err
}
