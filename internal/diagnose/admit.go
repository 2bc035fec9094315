package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// ErrNotAdmitted reports that Admit refused, or that a node failed after others were admitted.
var ErrNotAdmitted = errors.New("redlock: not admitted")

// Admit admits all nodes of a new deployment, or none. It returns the cause of ctx, without a
// report, if that ends before a node was admitted.
func (s *Setup) Admit(ctx context.Context) (*doctor.Report, error) {
	began := s.Group.Clock.Now()
	// Keys that may be locks forbid an admission.
	q := s.examine(func(r *command.Request) { r.ScanUntil(ctx) })
	select {
	case <-q.Done(): // each node bounds its own scan
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	replies := q.Replies()
	r := s.report(replies)
	if s.checkNew(r, replies); r.admitError() == nil {
		s.admit(ctx, r, replies, s.Group.Clock.Now().Sub(began)+MaxAdmitTime)
	}
	return (*doctor.Report)(r), r.admitError()
}

// checkNew adds the findings that forbid an admission.
func (s *Setup) checkNew(r *report, replies []*command.Reply) {
	for i := range r.Nodes {
		n := (*node)(&r.Nodes[i])
		if !n.Answered {
			n.add(doctor.Error, codeAdmit, "did not answer, so no node is admitted: repair the node or remove it from the list, and retry")
			continue
		}
		n.checkNew(s.Group.Set.Exempts(n.Node), replies[i].Diagnosis)
	}
	r.duplicates(func(first, second *doctor.Node) {
		if !s.Group.Set.Exempts(first.Node) && !s.Group.Set.Exempts(second.Node) {
			r.add(doctor.Error, codeAdmit, "no node is admitted as long as %s and %s are the same server", first.Node, second.Node)
		}
	})
}

func (n *node) checkNew(excepted bool, e *command.Diagnosis) {
	if i := slices.IndexFunc(n.Findings, func(f doctor.Finding) bool { return f.Grade == doctor.Error && f.Code != codeGuard }); i >= 0 && !excepted {
		n.add(doctor.Error, codeAdmit, "is not fit to vote, so no node is admitted: first fix the finding %s", n.Findings[i].Code)
	}
	switch n.Guard {
	case guard.StateNone:
	case guard.StateForeign, guard.StateUnreadable:
		n.add(doctor.Error, codeAdmit, "has a foreign or unreadable marker, so no node is admitted: fix that first")
	case guard.StateQuarantined:
		n.add(doctor.Error, codeAdmit, "is already quarantined because a client has contacted it, and a quarantine is never shortened: "+
			"it votes after %v", n.Quarantine.Round(time.Millisecond))
	default:
		n.add(doctor.Error, codeAdmit, "already has a marker (%s), so clients use these nodes, and a node without a marker may have forgotten "+
			"locks: start the clients instead, and each node without a marker is quarantined", n.Guard)
	}
	switch {
	case e.LiveKey != "":
		n.add(doctor.Error, codeAdmit, "has a key that may be a lock (%q, for %v more): stop all clients and wait until the key expires, or start "+
			"the clients and wait for the quarantine", e.LiveKey, e.LiveKeyTTL)
	case !e.Scanned:
		n.add(doctor.Error, codeAdmit, "cannot be scanned for locks (%s): grant the rights: ACL SETUSER … +scan +pttl ~*",
			e.ScanDenied)
	}
}

// admit marks every node, and adds a finding for each that was not marked. A node admits nothing
// later than within after it was examined, by its own clock.
func (s *Setup) admit(ctx context.Context, r *report, replies []*command.Reply, within time.Duration) {
	timeout := s.Timeout
	end := s.Group.Clock.Now().Add(timeout)
	q := s.Group.Broadcast(func(i int, req *command.Request) {
		e := replies[i].Diagnosis
		command.NewAdmit(req, s.Group.Set.Guard, s.Group.Nodes[i].Name(), e.Facts, e.Time+within.Microseconds())
		req.Clock, req.NotAfter = s.Group.Clock, end
	})
	over, stop := timer.After(s.Group.Clock, timeout)
	defer stop()
	select {
	case <-q.Done():
	case <-over:
	case <-ctx.Done(): // commands that were sent may have been executed
	}
	for i, rep := range q.Replies() {
		(*node)(&r.Nodes[i]).admitted(rep)
	}
}

// MaxAdmitTime is how long after the examination a node still executes an admission.
const MaxAdmitTime = 10 * time.Second

// admitted applies a node's answer to the report.
func (n *node) admitted(rep *command.Reply) {
	const rest = "admitted nodes vote; this node votes after its quarantine, which starts with the first client"
	switch {
	case rep == nil:
		n.add(doctor.Error, codeAdmit, "did not confirm its admission in time and may have been admitted: %s", rest)
	case rep.Outcome == command.Granted && rep.MarkerStatus.Status == guard.Marked:
		n.Guard = guard.StateOK
		n.Findings = slices.DeleteFunc(n.Findings, func(f doctor.Finding) bool { return f.Code == codeGuard })
	case rep.Outcome == command.Granted:
		n.add(doctor.Error, codeAdmit, "became a replica meanwhile: give the address of a master")
	case rep.Outcome == command.Refused:
		n.add(doctor.Error, codeAdmit, "was contacted by a client meanwhile and is quarantined: %s", rest)
	default:
		n.add(doctor.Error, codeAdmit, "was not admitted (%v): %s", rep.Err, rest)
	}
}

// admitError returns the findings that forbid the admission of all nodes, as one error.
func (r *report) admitError() error {
	var why []string
	for _, f := range (*doctor.Report)(r).All() {
		if f.Code == codeAdmit {
			why = append(why, f.Text)
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotAdmitted, oneline.List(why, "; "))
}
