package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// Diagnose examines every node of a Locker and reports whether the nodes are fit to hold locks. They must be
// masters on different servers that persist what they acknowledge, with all needed rights and with
// synchronized clocks. Diagnose uses connections of its own, dialled as the Locker's are, and also examines
// nodes that do not vote. It tries the commands that a lock needs in ways that change nothing.
//
// Diagnose waits for each node until the node timeout, which includes the time to connect. For a
// Locker that is made only for Diagnose, 2 s is a good WithNodeTimeout.
//
// A node that does not answer is a finding, not an error. An error matches redlock.ErrClosed, or the cause
// of ctx.
func Diagnose(ctx context.Context, locker *redlock.Locker) (*Report, error) {
	settings, err := door.SettingsOf(locker)
	if err != nil {
		return nil, err
	}
	x := &examiner{settings}
	all := x.examine(ctx, false)
	if ctx.Err() != nil {
		return nil, oneline.Join(fmt.Errorf("redlock: diagnose: %w", context.Cause(ctx)))
	}
	return x.report(all), nil
}

// examiner examines the nodes of a Locker.
type examiner struct{ door.Settings }

// answer is the diagnosis of a node, or why it could not be examined.
type answer struct {
	*examine.Diagnosis
	err error
}

// examine examines all nodes at the same time.
func (x *examiner) examine(ctx context.Context, scan bool) []answer {
	// The key belongs to no lock: it is random and in the reserved namespace.
	random := command.NewToken("")
	q := &examine.Question{Key: x.Prefix + examine.KeyPrefix + random, Guard: x.Guard, Scan: scan, Timeout: x.Timeout, Clock: x.Clock}
	if x.Fencing {
		q.Counters = append(q.Counters, command.FenceKey(q.Key, x.Clustered))
	}
	if x.Fencing && x.Clustered { // a counter's name depends on braces in the lock's key
		q.Counters = append(q.Counters, command.FenceKey(x.Prefix+examine.KeyPrefix+"{"+random+"}", true))
	}
	all := make([]answer, len(x.Nodes))
	var wg sync.WaitGroup
	for i, n := range x.Nodes {
		wg.Go(func() { all[i].Diagnosis, all[i].err = q.Node(ctx, n) })
	}
	wg.Wait()
	return all
}

// report turns the nodes' answers into a Report.
func (x *examiner) report(all []answer) *Report {
	r := &Report{}
	for i, a := range all {
		n := Node{Node: x.Nodes[i].Name()}
		if named, ok := x.Nodes[i].(fmt.Stringer); ok {
			n.Address = named.String()
		}
		if a.err != nil {
			n.Findings = append(n.Findings, newFinding(examine.Unreachable(n.Node, a.err, x.Timeout)))
		} else {
			n.fill(a.Diagnosis)
			x.reportGuard(&n, a.Diagnosis)
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.compare()
	return r
}

func (n *Node) fill(e *examine.Diagnosis) {
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
