package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/guard"
)

func (n *Node) add(grade Grade, code, format string, args ...any) {
	n.Findings = append(n.Findings, Finding{Grade: grade, Code: code, Text: n.Node + " " + fmt.Sprintf(format, args...)})
}

// reportGuard adds the state of the node's guard and the findings about it.
func (x *examiner) reportGuard(n *Node, e *examine.Diagnosis) {
	switch {
	case e.Role != "master" && x.Guard == nil: // a replica has its master's marker
	case x.Guard == nil:
		n.reportNoGuard(e)
	default:
		n.reportGuarded(x.Guard, e)
		n.reportBacklog(e)
	}
}

// reportNoGuard reports a guarded node to a Locker without a guard (docs/dev/hazards.md H112).
func (n *Node) reportNoGuard(e *examine.Diagnosis) {
	if e.Marker == "" {
		return
	}
	m, err := guard.ParseMarker(e.Marker)
	n.Guard, n.Quarantine = markerState(m, err, e, 0)
	n.add(Error, codeGuard, "is guarded (key %s exists) but this client has no guard, so the guard would not know its locks: use "+
		"WithRestartGuard (redlock --guard)%s, or name the node in WithUnsafeNodes while the guard is introduced",
		guard.Key, withMaxTTL(m))
}

func withMaxTTL(m guard.Marker) string {
	if m.MaxTTL == 0 {
		return ""
	}
	return fmt.Sprintf(" with a maxTTL of %v", m.MaxTTL)
}

// reportGuarded interprets the marker as the node's own script would.
func (n *Node) reportGuarded(g *guard.Settings, e *examine.Diagnosis) {
	if e.Marker == "" && e.MarkerUnread == "" {
		n.Guard = examine.StateNone
		n.add(Note, codeGuard, "has no marker of the restart guard: the first acquisition quarantines the node for %v; if no client is "+
			"running yet, redlock doctor --admit (doctor.Admit) avoids that", g.Quarantine(n.Node))
		return
	}
	m, err := guard.ParseMarker(e.Marker)
	n.Guard, n.Quarantine = markerState(m, err, e, g.Quarantine(n.Node))
	different := g.Mismatches(m, n.Node)
	switch {
	case n.Guard == examine.StateUnreadable:
		n.add(Error, codeGuard, "has a %s that can't be read (%s), so the node does not vote: grant the user the right to GET it; if the value "+
			"is not a marker, stop all clients, wait for the longest TTL, and delete the key", guard.Key, unreadable(e, err))
	case len(different) > 0:
		n.Guard, n.Quarantine = examine.StateForeign, 0
		n.add(Error, codeGuard, "is guarded by clients with other settings (%s), and does not vote here because they do not exclude these "+
			"clients: give all clients the same settings; to change them, stop the old clients, wait for their maxTTL of "+
			"%v, and delete the node's %s",
			strings.Join(different, "; "), m.MaxTTL, guard.Key)
	case n.Guard == examine.StateOutdated:
		n.add(Warning, codeGuard, "was restarted or promoted since it was marked, or its clock was set back, and may have forgotten locks: the next acquisition "+
			"quarantines the node for %v", g.Quarantine(n.Node))
	case n.Guard == examine.StateQuarantined && n.Quarantine > 0:
		n.add(Warning, codeGuard, "is quarantined for %v more because it is new, or was restarted, emptied or promoted: it votes when "+
			"every lock that it may have forgotten has expired; a quarantine is never shortened", wholeSeconds(n.Quarantine))
	}
}

// wholeSeconds rounds a time to wait up, from 10 s on to whole seconds: nodes that wait for the same time
// then say the same.
func wholeSeconds(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

func unreadable(e *examine.Diagnosis, err error) string {
	if e.MarkerUnread != "" {
		return e.MarkerUnread
	}
	return err.Error()
}

// markerState returns the guard state that a marker shows. full is the longest duration of a
// quarantine, or 0 if it is unknown.
func markerState(m guard.Marker, unreadable error, e *examine.Diagnosis, full time.Duration) (string, time.Duration) {
	left := full
	if e.ClockRead {
		left = time.Duration(m.Until-e.Time/1000) * time.Millisecond
	}
	switch {
	case unreadable != nil:
		return examine.StateUnreadable, 0
	case m.RunID != e.RunID || m.ReplID2 != e.ReplID2, full > 0 && left > full: // clock set back
		return examine.StateOutdated, 0
	case m.Until == 0:
		return examine.StateOK, 0
	}
	return examine.StateQuarantined, max(0, left)
}

// reportBacklog warns about repl-backlog-ttl (docs/dev/hazards.md H116). After a failback that no
// client notices within that time, the server has no record of its replica role.
func (n *Node) reportBacklog(e *examine.Diagnosis) {
	had := e.Replicas > 0 || e.Backlog || strings.Trim(e.ReplID2, "0") != ""
	if !had || e.Role != "master" || e.BacklogTTL == "0" {
		return
	}
	says := "can't be read (CONFIG GET)"
	if e.BacklogTTL != "" {
		says = "is " + e.BacklogTTL + " s"
	}
	n.add(Warning, codeBacklog, "has or had replicas, and its repl-backlog-ttl %s: after that time without a replica it forgets that it "+
		"was a replica, which causes another quarantine and may hide a failback: CONFIG SET repl-backlog-ttl 0, also on its replicas", says)
}
