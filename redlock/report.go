package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// Report is what Diagnose found.
type Report struct {
	// Nodes are in the Locker's order.
	Nodes []NodeReport
	// ClockSpread is by how much the nodes' clocks differ at the most, to within a round
	// trip. Rates matter to a lock, not this; but clocks that are far apart are not kept,
	// and one that is set right while locks live ends them early or late.
	ClockSpread time.Duration
	// Findings are of all nodes together.
	Findings []Finding
}

// NodeReport is what was found of one node. Without an answer only Node, Address and
// Findings are filled.
type NodeReport struct {
	Node    string
	Address string // without a password; empty when the node does not tell
	// Answered: the node said all that follows.
	Answered bool
	Version  string
	RunID    string
	Uptime   time.Duration
	Role     string // "master", "replica" or "sentinel"; empty when the node does not say
	Replicas int    // that are connected to it
	// Persistence is what a restart leaves, in words: "AOF, fsync always", "none", …
	// What takes the right to CONFIG GET to know is left out without it.
	Persistence string
	Eviction    string // maxmemory_policy
	MaxMemory   int64  // bytes; 0: no limit
	// ClockRead: ClockOffset is by how much the node's clock is ahead of this machine's, to
	// within half of RoundTrip.
	ClockRead   bool
	ClockOffset time.Duration
	RoundTrip   time.Duration
	// MissingRights are the rights that this Locker needs and the node's user lacks: commands
	// ("set", "client|kill"), and patterns of keys and channels as ACL SETUSER takes them
	// ("~redlock:node", "&redlock:free:app/*"). Patterns of lock keys and fence counters are
	// only tried with WithKeyPrefix.
	MissingRights []string
	// Guard is where the node stands with the restart guard; empty where neither it nor the
	// Locker knows of one.
	Guard GuardState
	// Quarantine is how long it will not vote still, by its own clock, for GuardQuarantined.
	// What may have ended is 0: the next acquisition ends it.
	Quarantine time.Duration
	Findings   []Finding
}

// Finding is something to say about a node, or about all of them.
type Finding = wire.Finding

// Grade is how bad a finding is.
type Grade = wire.Grade

// The grades of findings. A node with a GradeError does not vote, or can't.
const (
	GradeNote    = wire.Note
	GradeWarning = wire.Warning
	GradeError   = wire.Error
)

// Failed reports whether any finding is a GradeError.
func (r *Report) Failed() bool {
	for _, f := range r.All() {
		if f.Grade == GradeError {
			return true
		}
	}
	return false
}

// All lists all findings, of the nodes and then of the whole.
func (r *Report) All() []Finding {
	var all []Finding
	for _, n := range r.Nodes {
		all = append(all, n.Findings...)
	}
	return append(all, r.Findings...)
}

// Codes of findings about all nodes together, beside the nodes' own "clock", "duplicate"
// and "persistence".
const codeEven = "even"

// maxSpread is how far clocks that are kept by anybody may be apart.
const maxSpread = time.Second

// compare finds what no node can know by itself.
func (r *Report) compare() {
	r.checkDuplicates()
	if n := len(r.Nodes); n%2 == 0 {
		r.add(GradeWarning, codeEven, "%d nodes tolerate no more failures than %d: take one more, or one fewer", n, n-1)
	}
	if r.measureSpread(); r.ClockSpread > maxSpread {
		r.add(GradeWarning, wire.CodeClock, "the nodes' clocks differ by %v: run NTP on all of them, so that none has to be set right while "+
			"locks live", r.ClockSpread.Round(time.Millisecond))
	}
	r.checkMixture()
}

func (r *Report) add(grade Grade, code, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Grade: grade, Code: code, Text: fmt.Sprintf(format, args...)})
}

// checkDuplicates: docs/hazards.md H34.
func (r *Report) checkDuplicates() {
	r.duplicates(func(first, second *NodeReport) {
		r.Findings = append(r.Findings, wire.Duplicate(first.Node, second.Node, first.RunID))
	})
}

// duplicates calls f with each node that is the same server as one before it.
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

// checkMixture: the weakest node's persistence is that of the lock.
func (r *Report) checkMixture() {
	var seen []NodeReport
	for _, n := range r.Nodes {
		if !n.Answered {
			continue
		}
		if seen = append(seen, n); n.Persistence != seen[0].Persistence {
			r.add(GradeWarning, wire.CodePersistence, "the nodes keep their data differently (%s: %s; %s: %s): the weakest decides what a lock "+
				"survives; set all of them up alike", seen[0].Node, seen[0].Persistence, n.Node, n.Persistence)
			return
		}
	}
}
