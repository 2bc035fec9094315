package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
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
// The Locker needs WithRestartGuard; otherwise the error matches redlock.ErrInvalid. A refusal matches
// ErrNotAdmitted and comes with a report, whose findings state for each node the reason and what to
// do. If a node fails after others were admitted, those stay admitted and vote. The rest vote after
// their quarantine. If the report is nil, no node was admitted: the Locker was closed
// (redlock.ErrClosed) or ctx ended.
func Admit(ctx context.Context, locker *redlock.Locker) (*Report, error) {
	settings, err := door.SettingsOf(locker)
	switch {
	case err != nil:
		return nil, err
	case settings.Guard == nil:
		return nil, fmt.Errorf("%w: Admit needs WithRestartGuard: without it there is no quarantine", redlock.ErrInvalid)
	}
	x := &examiner{settings}
	began := x.Clock.Now()
	var all []answer
	if ctx.Err() == nil {
		all = x.examine(ctx, true) // keys that may be locks forbid an admission
	}
	if ctx.Err() != nil {
		return nil, oneline.Join(fmt.Errorf("redlock: admit: %w", context.Cause(ctx)))
	}
	r := x.report(all)
	if x.checkNew(r, all); r.admitError() == nil {
		x.admit(ctx, r, all, x.Clock.Now().Sub(began)+maxAdmitTime)
	}
	return r, r.admitError()
}

// checkNew adds the findings that forbid an admission.
func (x *examiner) checkNew(r *Report, all []answer) {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if !n.Answered {
			n.add(Error, codeAdmit, "did not answer, so no node is admitted: repair the node or remove it from the list, and retry")
			continue
		}
		n.checkNew(x.Exempts(n.Node), all[i].Diagnosis)
	}
	r.duplicates(func(first, second *Node) {
		if !x.Exempts(first.Node) && !x.Exempts(second.Node) {
			r.add(Error, codeAdmit, "no node is admitted as long as %s and %s are the same server", first.Node, second.Node)
		}
	})
}

func (n *Node) checkNew(excepted bool, e *examine.Diagnosis) {
	if i := slices.IndexFunc(n.Findings, func(f Finding) bool { return f.Grade == Error && f.Code != codeGuard }); i >= 0 && !excepted {
		n.add(Error, codeAdmit, "is not fit to vote, so no node is admitted: first fix the finding %s", n.Findings[i].Code)
	}
	switch n.Guard {
	case examine.StateNone:
	case examine.StateForeign, examine.StateUnreadable:
		n.add(Error, codeAdmit, "has a foreign or unreadable marker, so no node is admitted: fix that first")
	case examine.StateQuarantined:
		n.add(Error, codeAdmit, "is already quarantined because a client has contacted it, and a quarantine is never shortened: "+
			"it votes after %v", n.Quarantine.Round(time.Millisecond))
	default:
		n.add(Error, codeAdmit, "already has a marker (%s), so clients use these nodes, and a node without a marker may have forgotten "+
			"locks: start the clients instead, and each node without a marker is quarantined", n.Guard)
	}
	switch {
	case e.LiveKey != "":
		n.add(Error, codeAdmit, "has a key that may be a lock (%q, for %v more): stop all clients and wait until the key expires, or start "+
			"the clients and wait for the quarantine", e.LiveKey, e.LiveKeyTTL)
	case !e.Scanned:
		n.add(Error, codeAdmit, "cannot be scanned for locks (%s): grant the rights: ACL SETUSER … +scan +pttl ~*",
			e.ScanDenied)
	}
}

// maxAdmitTime is how long after the examination a node still executes an admission.
const maxAdmitTime = 10 * time.Second

// admit marks every node, and adds a finding for each that was not marked. A node admits nothing
// later than within after it was examined, by its own clock.
func (x *examiner) admit(ctx context.Context, r *Report, all []answer, within time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.Timeout, command.ErrTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, n := range x.Nodes {
		wg.Go(func() {
			until := all[i].Time + within.Microseconds()
			r.Nodes[i].admitted(examine.Admit(ctx, n, x.Guard, all[i].Diagnosis, until))
		})
	}
	wg.Wait()
}

// admitted applies what became of the admission to the report.
func (n *Node) admitted(result examine.Admission, err error) {
	const rest = "admitted nodes vote; this node votes after its quarantine, which starts with the first client"
	switch result {
	case examine.Admitted:
		n.Guard = examine.StateOK
		n.Findings = slices.DeleteFunc(n.Findings, func(f Finding) bool { return f.Code == codeGuard })
	case examine.Marked:
		n.add(Error, codeAdmit, "was contacted by a client meanwhile and is quarantined: %s", rest)
	case examine.NoMaster:
		n.add(Error, codeAdmit, "became a replica meanwhile: give the address of a master")
	case examine.Unanswered:
		n.add(Error, codeAdmit, "did not confirm its admission in time and may have been admitted: %s", rest)
	default:
		n.add(Error, codeAdmit, "was not admitted (%v): %s", err, rest)
	}
}

// ErrNotAdmitted reports that Admit did not admit all nodes. The error states for each node the
// reason and what to do.
var ErrNotAdmitted = errors.New("redlock: not admitted")
