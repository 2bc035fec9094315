package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

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
func (l *Locker) Admit(ctx context.Context) (*Report, error) {
	switch {
	case l.isClosed():
		return nil, ErrClosed
	case !l.set.guarded:
		return nil, invalid("Admit needs WithRestartGuard: without it there is no quarantine")
	case ctx.Err() != nil:
		return nil, oneline.Join(fmt.Errorf("redlock: admit: %w", context.Cause(ctx)))
	}
	began := l.now()
	q := l.examine(ctx, true)
	select {
	case <-q.Done(): // each node bounds its own scan
	case <-ctx.Done():
		return nil, oneline.Join(fmt.Errorf("redlock: admit: %w", context.Cause(ctx)))
	}
	replies := q.Replies()
	r := l.report(replies)
	if l.checkNew(r, replies); r.admitError() == nil {
		l.admit(ctx, r, replies, l.now().Sub(began)+maxAdmitTime)
	}
	return r, r.admitError()
}

// checkNew adds the findings that forbid an admission.
func (l *Locker) checkNew(r *Report, replies []*command.Reply) {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if !n.Answered {
			n.add(GradeError, codeAdmit, "did not answer, so no node is admitted: repair the node or remove it from the list, and retry")
			continue
		}
		n.checkNew(l.nodeSet.Exempts(n.Node), replies[i].Diagnosis)
	}
	r.duplicates(func(first, second *NodeReport) {
		if !l.nodeSet.Exempts(first.Node) && !l.nodeSet.Exempts(second.Node) {
			r.add(GradeError, codeAdmit, "no node is admitted as long as %s and %s are the same server", first.Node, second.Node)
		}
	})
}

func (n *NodeReport) checkNew(excepted bool, e *command.Diagnosis) {
	if i := slices.IndexFunc(n.Findings, func(f Finding) bool { return f.Grade == GradeError && f.Code != codeGuard }); i >= 0 && !excepted {
		n.add(GradeError, codeAdmit, "is not fit to vote, so no node is admitted: first fix the finding %s", n.Findings[i].Code)
	}
	switch n.Guard {
	case GuardNone:
	case GuardForeign, GuardUnreadable:
		n.add(GradeError, codeAdmit, "has a foreign or unreadable marker, so no node is admitted: fix that first")
	case GuardQuarantined:
		n.add(GradeError, codeAdmit, "is already quarantined because a client has contacted it, and a quarantine is never shortened: "+
			"it votes after %v", n.Quarantine.Round(time.Millisecond))
	default:
		n.add(GradeError, codeAdmit, "already has a marker (%s), so clients use these nodes, and a node without a marker may have forgotten "+
			"locks: start the clients instead, and each node without a marker is quarantined", n.Guard)
	}
	switch {
	case e.LiveKey != "":
		n.add(GradeError, codeAdmit, "has a key that may be a lock (%q, for %v more): stop all clients and wait until the key expires, or start "+
			"the clients and wait for the quarantine", e.LiveKey, e.LiveKeyTTL)
	case !e.Scanned:
		n.add(GradeError, codeAdmit, "cannot be scanned for locks (%s): grant the rights: ACL SETUSER … +scan +pttl ~*",
			e.ScanDenied)
	}
}

// admit marks every node, and adds a finding for each that was not marked. A node admits nothing
// later than within after it was examined, by its own clock.
func (l *Locker) admit(ctx context.Context, r *Report, replies []*command.Reply, within time.Duration) {
	timeout := l.readTimeout()
	end := l.now().Add(timeout)
	q := l.group.Broadcast(func(i int, req *command.Request) {
		e := replies[i].Diagnosis
		command.NewAdmit(req, l.nodeSet.Guard, l.nodes[i].Name(), e.Facts, e.Time+within.Microseconds())
		req.Clock, req.NotAfter = l.set.clock, end
	})
	over, stop := clock.After(l.set.clock, timeout)
	defer stop()
	select {
	case <-q.Done():
	case <-over:
	case <-ctx.Done(): // commands that were sent may have been executed
	}
	for i, rep := range q.Replies() {
		r.Nodes[i].admitted(rep)
	}
}

// maxAdmitTime is how long after the examination a node still executes an admission.
const maxAdmitTime = 10 * time.Second

// admitted applies a node's answer to the report.
func (n *NodeReport) admitted(rep *command.Reply) {
	const rest = "admitted nodes vote; this node votes after its quarantine, which starts with the first client"
	switch {
	case rep == nil:
		n.add(GradeError, codeAdmit, "did not confirm its admission in time and may have been admitted: %s", rest)
	case rep.Outcome == command.Granted && rep.MarkerStatus.Status == guard.Marked:
		n.Guard = GuardOK
		n.Findings = slices.DeleteFunc(n.Findings, func(f Finding) bool { return f.Code == codeGuard })
	case rep.Outcome == command.Granted:
		n.add(GradeError, codeAdmit, "became a replica meanwhile: give the address of a master")
	case rep.Outcome == command.Refused:
		n.add(GradeError, codeAdmit, "was contacted by a client meanwhile and is quarantined: %s", rest)
	default:
		n.add(GradeError, codeAdmit, "was not admitted (%v): %s", rep.Err, rest)
	}
}

// admitError returns the findings that forbid the admission of all nodes, as one error.
func (r *Report) admitError() error {
	var why []string
	for _, f := range r.All() {
		if f.Code == codeAdmit {
			why = append(why, f.Text)
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotAdmitted, strings.Join(why, "; "))
}
