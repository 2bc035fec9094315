package doctor

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Report is the result of Diagnose and Admit.
type Report struct {
	// Nodes are in the Locker's order.
	Nodes []Node
	// ClockSpread is the largest difference between two nodes' clocks, to within a round trip. A
	// constant difference does no harm to a lock. But clocks that are far apart are not
	// synchronized, and a clock that is set while locks are held ends them early or late.
	ClockSpread time.Duration
	// Findings concern the nodes as a whole.
	Findings []Finding
}

// Node describes one node. Without an answer only Node, Address and Findings are set.
type Node struct {
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
	// Guard is the state of the node's restart guard, by its marker. Only a node in state "ok"
	// votes. It is empty if neither the node nor the Locker has a guard. Otherwise it is one of:
	//
	//   - "ok": the node votes
	//   - "quarantined": the node may have forgotten locks
	//   - "outdated": the node was started or promoted since it was marked, and the first
	//     acquisition starts a quarantine
	//   - "foreign": the marker is for other nodes, another maxTTL or another name
	//   - "unreadable": the marker cannot be read
	//   - "none": there is no marker, and the first acquisition starts a quarantine
	Guard string
	// Quarantine is how much longer the node does not vote, by its own clock, if Guard is
	// "quarantined". It is 0 if the quarantine may be over: the next acquisition ends it.
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

// The grades of findings. A node with a Error does not vote, or cannot.
const (
	Note    = Grade(examine.Note)
	Warning = Grade(examine.Warning)
	Error   = Grade(examine.Error)
)

// Failed reports whether any finding is a Error.
func (r *Report) Failed() bool {
	for _, f := range r.All() {
		if f.Grade == Error {
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
	return fmt.Errorf("%w: %s", ErrNotAdmitted, oneline.List(why, "; "))
}

// The codes of findings about the guard.
const (
	codeGuard   = "guard"
	codeBacklog = "backlog"
	codeAdmit   = "admission"
)
