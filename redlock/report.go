package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Report is the result of Diagnose and Admit.
type Report struct {
	// Nodes are in the Locker's order.
	Nodes []NodeReport
	// ClockSpread is the largest difference between two nodes' clocks, to within a round trip. A
	// constant difference does no harm to a lock. But clocks that are far apart are not
	// synchronized, and a clock that is set while locks are held ends them early or late.
	ClockSpread time.Duration
	// Findings concern the nodes as a whole.
	Findings []Finding
}

// NodeReport describes one node. Without an answer only Node, Address and Findings are set.
type NodeReport struct {
	Node    string
	Address string // without a password; empty if unknown
	// Answered reports that the node answered, so that the other fields are set.
	Answered bool
	Version  string
	RunID    string
	Uptime   time.Duration
	Role     string // "master", "replica" or "sentinel"; empty if unknown
	Replicas int    // connected replicas
	// Persistence describes what survives a restart: "AOF, fsync always", "none" and so on. It
	// omits what cannot be read without the right to CONFIG GET.
	Persistence string
	Eviction    string // maxmemory_policy
	MaxMemory   int64  // bytes; 0: no limit
	// ClockRead reports that ClockOffset is set: how far the node's clock is ahead of this
	// machine's, to within half of RoundTrip.
	ClockRead   bool
	ClockOffset time.Duration
	RoundTrip   time.Duration
	// MissingRights are the rights that this Locker needs and the node's user lacks. They are
	// commands ("set", "client|kill"), and patterns of keys and channels in the syntax of ACL
	// SETUSER ("~redlock:guard", "&redlock:free:app/*"). Patterns of lock keys and fence counters
	// are checked only with WithKeyPrefix.
	MissingRights []string
	// Guard is the state of the node's restart guard. It is empty if neither the node nor the
	// Locker has a guard.
	Guard GuardState
	// Quarantine is how much longer the node does not vote, by its own clock, if Guard is
	// GuardQuarantined. It is 0 if the quarantine may be over: the next acquisition ends it.
	Quarantine time.Duration
	Findings   []Finding
}

// Finding is a remark on a node, or on all nodes together.
type Finding struct {
	Grade Grade `json:"grade"`
	// Code names the kind for programs: "replica", "eviction" and so on.
	Code string `json:"code"`
	// Text names the node, the problem and the remedy.
	Text string `json:"text"`
}

// Grade is the severity of a finding.
type Grade string

// The grades of findings. A node with a GradeError does not vote, or cannot.
const (
	GradeNote    = Grade(command.Note)
	GradeWarning = Grade(command.Warning)
	GradeError   = Grade(command.Error)
)

func newFinding(f command.Finding) Finding {
	return Finding{Grade: Grade(f.Grade), Code: f.Code, Text: f.Text}
}

// Failed reports whether any finding is a GradeError.
func (r *Report) Failed() bool {
	for _, f := range r.All() {
		if f.Grade == GradeError {
			return true
		}
	}
	return false
}

// All returns all findings: those of the nodes, then those of the whole.
func (r *Report) All() []Finding {
	var all []Finding
	for _, n := range r.Nodes {
		all = append(all, n.Findings...)
	}
	return append(all, r.Findings...)
}

// Codes of findings about all nodes together, besides "clock", "duplicate" and "persistence", which
// nodes also use.
const codeEven = "even"

// maxSpread is the largest difference between clocks that counts as synchronized.
const maxSpread = time.Second

// compare adds the findings that need the reports of all nodes.
func (r *Report) compare() {
	r.checkDuplicates()
	if n := len(r.Nodes); n%2 == 0 {
		r.add(GradeWarning, codeEven, "%d nodes tolerate no more failures than %d: add or remove one", n, n-1)
	}
	if r.measureSpread(); r.ClockSpread > maxSpread {
		r.add(GradeWarning, command.CodeClock, "the nodes' clocks differ by %v: run NTP on all of them, because setting a clock ends held "+
			"locks early or late", r.ClockSpread.Round(time.Millisecond))
	}
	r.checkMixture()
}

func (r *Report) add(grade Grade, code, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Grade: grade, Code: code, Text: fmt.Sprintf(format, args...)})
}

// checkDuplicates finds servers that are listed twice (docs/dev/hazards.md H34).
func (r *Report) checkDuplicates() {
	r.duplicates(func(first, second *NodeReport) {
		r.Findings = append(r.Findings, newFinding(command.Duplicate(first.Node, second.Node, first.RunID)))
	})
}

// duplicates calls f for each node that is the same server as an earlier one.
func (r *Report) duplicates(f func(first, second *NodeReport)) {
	firsts := make(map[string]*NodeReport)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		switch first := firsts[n.RunID]; {
		case n.RunID == "":
		case first != nil:
			f(first, n)
		default:
			firsts[n.RunID] = n
		}
	}
}

func (r *Report) measureSpread() {
	var least, most time.Duration
	timed := false
	for _, n := range r.Nodes {
		if !n.ClockRead {
			continue
		}
		if !timed {
			least, most, timed = n.ClockOffset, n.ClockOffset, true
		}
		least, most = min(least, n.ClockOffset), max(most, n.ClockOffset)
	}
	r.ClockSpread = most - least
}

// checkMixture warns if nodes persist differently: the weakest decides what a lock survives.
func (r *Report) checkMixture() {
	var seen []NodeReport
	for _, n := range r.Nodes {
		if !n.Answered {
			continue
		}
		if seen = append(seen, n); n.Persistence != seen[0].Persistence {
			r.add(GradeWarning, command.CodePersistence, "the nodes persist their data differently (%s: %s; %s: %s): the weakest decides what a lock "+
				"survives; configure all nodes alike", seen[0].Node, seen[0].Persistence, n.Node, n.Persistence)
			return
		}
	}
}
