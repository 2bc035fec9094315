package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/vote"
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
func (l *Locker) Diagnose(ctx context.Context) (*Report, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	timeout := l.readTimeout()
	over, stop := clock.After(l.set.clock, timeout)
	defer stop()
	q := l.examine(ctx, false)
	select {
	case <-q.Done():
	case <-over:
	case <-ctx.Done():
		return nil, oneline.Join(fmt.Errorf("redlock: diagnose: %w", context.Cause(ctx)))
	}
	return l.report(q.Replies()), nil
}

// examine examines every node. With survey it also scans for keys that may be locks, until ctx
// ends.
func (l *Locker) examine(ctx context.Context, survey bool) *vote.Broadcast {
	// The key belongs to no lock: it is random and in the reserved namespace.
	random := command.NewToken("")
	key := l.set.prefix + command.DoctorPrefix + random
	var counters []string
	if l.set.fencing {
		counters = append(counters, command.FenceKey(key, l.clustered))
	}
	if l.set.fencing && l.clustered { // a counter's name depends on braces in the lock's key
		counters = append(counters, command.FenceKey(l.set.prefix+command.DoctorPrefix+"{"+random+"}", true))
	}
	end := l.now().Add(l.readTimeout())
	return l.group.Broadcast(func(_ int, r *command.Request) {
		command.NewExamine(r, key, counters...)
		r.Clock, r.NotAfter = l.set.clock, end
		if survey {
			r.ScanContext = ctx
		}
	})
}

// report turns the nodes' answers into a Report.
func (l *Locker) report(replies []*command.Reply) *Report {
	r := &Report{}
	for i, reply := range replies {
		n := NodeReport{Node: l.nodes[i].Name()}
		if s, ok := l.nodes[i].(fmt.Stringer); ok {
			n.Address = s.String()
		}
		switch {
		case reply == nil:
			n.unreachable(ErrNodeTimeout)
		case reply.Diagnosis == nil && reply.Err != nil:
			n.unreachable(reply.Err)
		case reply.Diagnosis == nil:
			n.unreachable(fmt.Errorf("answer: %v", reply.Outcome))
		default:
			n.fill(reply.Diagnosis)
			l.reportGuard(&n, reply.Diagnosis)
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.compare()
	return r
}

func (n *NodeReport) unreachable(err error) {
	n.Findings = []Finding{{
		Grade: GradeError, Code: command.CodeUnreachable, Text: fmt.Sprintf("%s could not be examined: %v", n.Node, err),
	}}
}

func (n *NodeReport) fill(e *command.Diagnosis) {
	n.Answered = true
	n.Version, n.RunID, n.Uptime, n.Role, n.Replicas = e.Version, e.RunID, e.Uptime, e.Role, e.Replicas
	n.Persistence, n.Eviction, n.MaxMemory = e.Persistence(), e.Eviction, e.MaxMemory
	n.RoundTrip, n.ClockRead, n.ClockOffset = e.RoundTrip.Round(time.Microsecond), e.ClockRead, e.Offset
	n.MissingRights = e.MissingRights
	for _, f := range e.Findings {
		n.Findings = append(n.Findings, newFinding(f))
	}
	switch {
	case e.Mode == "sentinel":
		n.Role = "sentinel"
	case n.Role == "slave":
		n.Role = "replica"
	}
}
