package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/diagnose"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// Diagnose examines every node and reports whether the nodes are fit to hold locks. They must be
// masters on different servers that persist what they acknowledge, with all needed rights and with
// synchronized clocks. Diagnose uses connections of its own and also examines nodes that do not
// vote. It tries the commands that a lock needs in ways that change nothing.
//
// Diagnose waits for each node until the node timeout, which includes the time to connect. For a
// Locker that is made only for Diagnose, 2 s is a good WithNodeTimeout.
//
// A node that does not answer is a finding, not an error. An error matches ErrClosed, or the cause
// of ctx.
func (l *Locker) Diagnose(ctx context.Context) (*doctor.Report, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	r, err := l.diagnosis().Diagnose(ctx)
	if err != nil {
		return nil, oneline.Join(fmt.Errorf("redlock: diagnose: %w", err))
	}
	return r, nil
}

// Admit lets the nodes of a new deployment vote at once. Otherwise the first acquisition starts a
// quarantine of maxTTL. Admit, or redlock doctor --admit, must run before the first client is
// started. By calling it the operator asserts that no client of these nodes is running, or was
// running within the last maxTTL.
//
// Admit queries all nodes. It refuses unless every node answers, is fit to vote, and has no marker.
// If only some nodes have a marker, the others may have forgotten theirs. Admit also refuses if a
// key with a TTL exists outside the namespace redlock:, because it may be a lock. To find such keys
// it scans each node's database (SCAN and PTTL) until ctx ends. Admit never ends a quarantine: a
// node that a client contacts meanwhile stays quarantined.
//
// Admit needs WithRestartGuard; otherwise the error matches ErrInvalid. A refusal matches
// ErrNotAdmitted and comes with a report, whose findings state for each node the reason and what to
// do. If a node fails after others were admitted, those stay admitted and vote. The rest vote after
// their quarantine. If the report is nil, no node was admitted: the Locker was closed (ErrClosed)
// or ctx ended.
func (l *Locker) Admit(ctx context.Context) (*doctor.Report, error) {
	switch {
	case l.isClosed():
		return nil, ErrClosed
	case !l.set.guarded:
		return nil, invalid("Admit needs WithRestartGuard: without it there is no quarantine")
	case ctx.Err() != nil:
		return nil, oneline.Join(fmt.Errorf("redlock: admit: %w", context.Cause(ctx)))
	}
	r, err := l.diagnosis().Admit(ctx)
	if err != nil && !errors.Is(err, ErrNotAdmitted) {
		return nil, oneline.Join(fmt.Errorf("redlock: admit: %w", err))
	}
	return r, err
}

func (l *Locker) diagnosis() *diagnose.Setup {
	return &diagnose.Setup{
		Group: l.group, Prefix: l.set.prefix, Fencing: l.set.fencing, Guarded: l.set.guarded, Clustered: l.clustered, Timeout: l.readTimeout(),
	}
}
