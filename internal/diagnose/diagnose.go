package diagnose

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// Setup is what is examined, and for which use.
type Setup struct {
	Group     *vote.Group
	Prefix    string // of the locks' keys
	Fencing   bool
	Guarded   bool // with the restart guard of Group.Set
	Clustered bool // at least one node is a Redis Cluster
	Timeout   time.Duration
}

// lateAnswer is how long after its timeout an answer of a node counts. A node ends its examination at
// the timeout by itself, and its error says at which step.
const lateAnswer = 250 * time.Millisecond

// Diagnose examines every node. It returns the cause of ctx if that ends first.
func (s *Setup) Diagnose(ctx context.Context) (*doctor.Report, error) {
	over, stop := timer.After(s.Group.Clock, s.Timeout+lateAnswer)
	defer stop()
	q := s.examine(nil)
	select {
	case <-q.Done():
	case <-over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return (*doctor.Report)(s.report(q.Replies())), nil
}

// examine examines every node. more, if not nil, adds to each request.
func (s *Setup) examine(more func(*command.Request)) *vote.Broadcast {
	// The key belongs to no lock: it is random and in the reserved namespace.
	random := command.NewToken("")
	key := s.Prefix + command.DoctorPrefix + random
	var counters []string
	if s.Fencing {
		counters = append(counters, command.FenceKey(key, s.Clustered))
	}
	if s.Fencing && s.Clustered { // a counter's name depends on braces in the lock's key
		counters = append(counters, command.FenceKey(s.Prefix+command.DoctorPrefix+"{"+random+"}", true))
	}
	end := s.Group.Clock.Now().Add(s.Timeout)
	return s.Group.Broadcast(func(_ int, r *command.Request) {
		command.NewExamine(r, key, counters...)
		r.Clock, r.NotAfter = s.Group.Clock, end
		if more != nil {
			more(r)
		}
	})
}

// report turns the nodes' answers into a Report.
func (s *Setup) report(replies []*command.Reply) *report {
	r := &report{}
	for i, reply := range replies {
		n := doctor.Node{Node: s.Group.Nodes[i].Name()}
		if named, ok := s.Group.Nodes[i].(fmt.Stringer); ok {
			n.Address = named.String()
		}
		switch {
		case reply == nil:
			s.unreachable(&n, command.ErrTimeout)
		case reply.Diagnosis == nil && reply.Err != nil:
			s.unreachable(&n, reply.Err)
		case reply.Diagnosis == nil:
			s.unreachable(&n, fmt.Errorf("answer: %v", reply.Outcome))
		default:
			(*node)(&n).fill(reply.Diagnosis)
			s.reportGuard((*node)(&n), reply.Diagnosis)
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.compare()
	return r
}

// unreachable adds the finding about a node that could not be examined.
func (s *Setup) unreachable(n *doctor.Node, err error) {
	n.Findings = append(n.Findings, newFinding(command.Unreachable(n.Node, err, s.Timeout)))
}

func (n *node) fill(e *command.Diagnosis) {
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
