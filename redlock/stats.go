package redlock

import (
	"cmp"
	"slices"
	"time"
)

// HeldLock describes a lock that a Locker holds.
type HeldLock struct {
	Names      []string      // sorted
	ID         string        // Lock.ID
	Since      time.Time     // the start of the acquisition, or of Resume
	Remaining  time.Duration // Lock.Remaining
	Fence      int64         // Lock.Fence
	AutoExtend bool          // WithAutoExtend
}

// Held returns the locks that this Locker holds now, the oldest first, for a status page or a log. Locks
// that are equally old come in the order of their IDs. It leaves out shares, and locks that are being
// acquired or released. It needs no network. The result belongs to the caller.
func (l *Locker) Held() []HeldLock {
	if l.registry.closing == nil {
		return nil // the zero Locker
	}
	var held []HeldLock
	now, wall := l.now(), time.UnixMicro(l.set.wall())
	for _, h := range l.registry.all() {
		lk := h.lock()
		left := lk.Remaining()
		if left <= 0 { // it is being acquired, or has ended
			continue
		}
		held = append(held, HeldLock{
			Names: lk.Names(), ID: lk.ID(), Since: wall.Add(-now.Sub(lk.holder.Began)), Remaining: left, Fence: lk.Fence(),
			AutoExtend: lk.lease.Terms.AutoExtend,
		})
	}
	slices.SortFunc(held, func(a, b HeldLock) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return held
}

// Stats is the present state of a Locker, for metrics and status pages.
type Stats struct {
	// Held is how many locks are held. It counts no shares, and no locks that are being acquired or
	// released.
	Held int
	// Waiting is how many calls of Acquire, AcquireAll, Do and Lead wait: for other requests of the
	// Locker, for a holder, or for the nodes.
	Waiting int
	// Nodes are the Locker's nodes, in its order. It is empty from the call of Close on.
	Nodes []NodeStats
}

// NodeStats is the present state of a node, as a Locker sees it.
type NodeStats struct {
	Node string
	// Err is why the node does not vote, or nil if it votes. It matches ErrUnfit if the server is
	// unfit, and is a *QuarantineError in a quarantine.
	//
	// It says what is known without asking the server. A server that stops answering is noticed by
	// the next request or health check. A quarantine, or another reason of the restart guard, is
	// known from the first acquisition on. After an acquisition that the server answered by an error,
	// Err is that error until the server answers another one by a vote, or is dialled again.
	Err error
}

// Stats returns what the Locker holds and what waits now. It counts locks and calls, and not events,
// so it is right also after hooks of Trace were dropped. The numbers are read one after another, and
// may be of slightly different instants.
//
// It needs no network and never waits for it. It takes time in proportion to the number of locks. It
// is safe for concurrent use. The zero Locker has the zero Stats. Held lists the locks.
func (l *Locker) Stats() Stats {
	if l.registry.closing == nil {
		return Stats{}
	}
	s := Stats{Waiting: int(l.waits.Load())}
	now := l.now()
	for _, lk := range l.registry.all() {
		if lk.remaining(now) > 0 {
			s.Held++
		}
	}
	if l.isClosed() {
		return s
	}
	for _, n := range l.nodes {
		s.Nodes = append(s.Nodes, NodeStats{n.Name(), n.WhyNotVoting()})
	}
	return s
}
