package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
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
		lk := lockOf(h)
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
	for _, h := range l.registry.all() {
		if h.remaining(now) > 0 {
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

// Status describes who holds a name, as the nodes reported it.
type Status struct {
	Name string
	// Held reports that one token is on a quorum of the nodes.
	Held bool
	// Owner is that holder's label (WithOwner). It is empty if the holder has no label.
	Owner string
	// ID is that holder's Lock.ID. It is empty for a client of another library.
	ID string
	// Remaining is how long a quorum of the nodes keeps the keys unless they are released or
	// extended. It is negative if they never expire, and 0 unless Held is true.
	Remaining time.Duration
	// Nodes are the reports of the nodes, in the Locker's order.
	Nodes []NodeStatus
}

// NodeStatus is what one node holds under a name's key.
type NodeStatus struct {
	Node string
	// Held reports that a token is there. ID is that of its lock. Token shows its label and hides the rest.
	Held  bool
	Owner string
	ID    string
	Token string
	// Remaining is how long the node keeps the key. It is negative if the key never expires.
	Remaining time.Duration
	// Err is ErrForeignKey, or why the node did not answer.
	Err error
}

// Inspect queries all nodes for the holder of a name, and waits for each until the node timeout.
// The result may be out of date when it is returned.
//
// If too few nodes answer for a quorum, the error matches ErrNoQuorum, and the status has the
// answers of the others. With any other error the status is nil: ErrInvalid for a name out of
// bounds, ErrClosed, or the cause of ctx.
func (l *Locker) Inspect(ctx context.Context, name string) (*Status, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	if err := l.set.checkName(name); err != nil {
		return nil, err
	}
	r := l.inspectRound(&noEvents, nil, []string{name})
	r.Rule = vote.AfterAll
	if err := l.runRound(ctx, r, l.set.readTimeout()); err != nil {
		return nil, err
	}
	s := &Status{Name: name}
	r.View(func(res *vote.Ballots) { s.fillIn(r, res) })
	switch {
	case r.Won():
	case l.isClosed(): // Close ends what its nodes have not answered
		return nil, ErrClosed
	default:
		return s, votesError(r, ErrNoQuorum)
	}
	return s, nil
}

func (s *Status) fillIn(r *vote.Round, res *vote.Ballots) {
	for i := range res.ByNode {
		n := NodeStatus{Node: r.NodeName(i), Err: res.ByNode[i].Err}
		if states := res.KeyStates[i]; len(states) > 0 {
			h := states[0]
			n.Held, n.Owner, n.ID, n.Token, n.Remaining = h.Value != "", command.Owner(h.Value), command.ID(h.Value), command.Mask(h.Value), h.TTL
			if h.ForeignType != "" {
				n.Err = ErrForeignKey
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	if token, kept := quorumHolder(res, 0); token != "" {
		s.Held, s.Owner, s.ID, s.Remaining = true, command.Owner(token), command.ID(token), kept
	}
}

// Healthy returns nil if a quorum of nodes can vote. Otherwise the error has each node's answer and
// matches ErrNoQuorum, or ErrQuarantined if quarantines are the reason. It matches ErrClosed if the
// Locker is closed, and the cause of ctx if that ends first. Healthy takes one round trip, at most
// the node timeout.
//
// Healthy alone starts no quarantine of the restart guard. On nodes that were never asked for a lock nor
// admitted, it returns ErrNoQuorum until the first acquisition. A readiness probe must therefore not block
// the first acquisition.
func (l *Locker) Healthy(ctx context.Context) error {
	if l.isClosed() {
		return ErrClosed
	}
	r := l.group.New(&noEvents, nil, nil)
	if l.set.guarded {
		command.NewGuardedPing(&r.Request)
	} else {
		command.NewPing(&r.Request)
	}
	r.Start = l.now()
	if err := l.runRound(ctx, r, l.set.readTimeout()); err != nil {
		return err
	}
	switch {
	case r.Won():
		return nil
	case l.isClosed():
		return ErrClosed
	}
	return faultError(r)
}
