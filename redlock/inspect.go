package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Status is who holds a name, as the nodes saw it when they were asked.
type Status struct {
	Name string
	// Held: one token stands on a quorum of the nodes.
	Held bool
	// Owner is that holder's label (WithOwner), if it has one.
	Owner string
	// Remaining is how long a quorum of the nodes keeps it unless it is released or
	// extended; negative when it never expires, 0 unless Held.
	Remaining time.Duration
	// Nodes is what each node said, in the Locker's order.
	Nodes []NodeStatus
}

// NodeStatus is what one node holds under a name's key.
type NodeStatus struct {
	Node string
	// Held: a token stands there. Token shows its label and hides the rest.
	Held  bool
	Owner string
	Token string
	// Remaining is how long the node keeps the key; negative when it never expires.
	Remaining time.Duration
	// Err is ErrForeignKey, or why the node said nothing.
	Err error
}

// Inspect asks all nodes who holds a name, and waits for each until the node timeout.
// The answer is a look, not a promise: it may be out of date when it is read.
// When too few nodes answer for a quorum the error matches ErrNoQuorum, and the
// status has what the others said. There is none with another error: ErrInvalid for a name
// out of bounds, ErrClosed, or the cause of ctx.
func (l *Locker) Inspect(ctx context.Context, name string) (*Status, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	if err := l.set.checkName(name); err != nil {
		return nil, err
	}
	r := l.inspectRound(nil, []string{name})
	r.rule, r.start = afterAll, l.now()
	if err := r.run(ctx, l.readTimeout()); err != nil {
		return nil, err
	}
	s := l.status(name, r)
	if !r.won() {
		return s, r.asError(ErrNoQuorum)
	}
	return s, nil
}

func (l *Locker) status(name string, r *round) *Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Status{Name: name}
	ends := make(map[string][]clock.Instant)
	for i := range r.ballots {
		b := &r.ballots[i]
		n := NodeStatus{Node: l.nodes[i].Name(), Err: b.err}
		if holds := r.keyStates[i]; len(holds) > 0 {
			h := holds[0]
			n.Held, n.Owner, n.Token, n.Remaining = h.Value != "", wire.Owner(h.Value), wire.Mask(h.Value), h.TTL
			if h.ForeignType != "" {
				n.Err = ErrForeignKey
			}
			if n.Held {
				ends[h.Value] = append(ends[h.Value], keptUntil(r.start, h.TTL))
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	for token, untils := range ends {
		if end, ok := quorum.Supported(untils, r.tally.Need()); ok {
			s.Held, s.Owner, s.Remaining = true, wire.Owner(token), end.Sub(r.start)
			if end == noDeadline {
				s.Remaining = -time.Millisecond // as a node says it
			}
		}
	}
	return s
}

func keptUntil(start clock.Instant, ttl time.Duration) clock.Instant {
	if ttl < 0 {
		return noDeadline
	}
	return start.Add(ttl)
}

// Healthy is nil while a quorum of nodes can vote; otherwise it matches ErrNoQuorum, or
// ErrQuarantined while quarantines are the reason, and says what each node said. ErrClosed,
// or the cause of ctx when that is done before. One round trip, at most the node timeout.
//
// It only looks. Under the restart guard a quarantine is begun, and ended, by
// acquisitions: on nodes that were never asked for a lock nor admitted it matches
// ErrNoQuorum until somebody acquires, so that no first acquisition may wait for it.
func (l *Locker) Healthy(ctx context.Context) error {
	if l.isClosed() {
		return ErrClosed
	}
	r := l.newRound(nil, nil)
	if l.set.guarded {
		wire.NewGuardedPing(&r.req)
	} else {
		wire.NewPing(&r.req)
	}
	r.start = l.now()
	r.req.Clock, r.req.NotAfter = l.set.clock, r.start.Add(l.readTimeout())
	if err := r.run(ctx, l.readTimeout()); err != nil {
		return err
	}
	if !r.won() {
		return r.asFaultError()
	}
	return nil
}
