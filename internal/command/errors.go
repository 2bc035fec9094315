package command

import "errors"

// Reasons in a reply that callers may need to distinguish.
var (
	// ErrForeignKey reports that the key holds something that is not a lock, such as a list or a
	// hash. It refuses every acquire until the key is deleted (docs/dev/hazards.md H44).
	ErrForeignKey = errors.New("the key holds a value that is not a lock")
	// ErrTimeout reports that the node did not answer within the node timeout. It does not match
	// context.DeadlineExceeded, which means only the caller's own deadline (docs/dev/hazards.md
	// H111).
	ErrTimeout = errors.New("no answer within the node timeout")
	// ErrExpired reports that the command waited unsent until it could no longer be useful.
	ErrExpired = errors.New("not sent in time")
	// ErrUnfit reports that the node does not vote because something is wrong with it. The error
	// names the node, the problem and the remedy.
	ErrUnfit = errors.New("the node is not fit to vote")
	// ErrGuardMismatch reports that the node is guarded by clients with another restart guard
	// than this one: another list of nodes, another maxTTL, another name for the node, or no
	// guard here. Like any wrong setting, waiting does not help (docs/dev/hazards.md H40, H112).
	ErrGuardMismatch = errors.New("the node's restart guard is not this client's")
	// ErrUnmarked is why a command does not count under the restart guard as long as the state of the
	// node's marker is unknown. An acquisition asks for the state. A query of the holders does not.
	ErrUnmarked = errors.New("pool: node is not admitted by the restart guard (new or restarted); the next acquisition starts its quarantine")
	// ErrGivenUp reports that the attempt was decided before the command was sent.
	ErrGivenUp = errors.New("given up before it was sent")
)

// Fault is why a server does not vote, whatever is asked of it.
type Fault struct {
	// Code names the kind for programs: "replica", "eviction" and so on.
	Code string
	// Text names the node, the problem and the remedy.
	Text string
}

// The codes of faults.
const (
	CodeUnreadable = "unreadable" // INFO is denied or unusable
	CodeSentinel   = "sentinel"   // a Sentinel's port
	CodeCluster    = "cluster"    // a member of a Redis Cluster
	CodeReplica    = "replica"    // writable or not
	CodeVersion    = "version"    // too old
	CodeEviction   = "eviction"   // the server may delete keys before they expire
	CodeDatabase   = "database"   // the connection uses another database than configured
	CodeDuplicate  = "duplicate"  // one server under two names
)

// Durability returns what to do about a server that may lose locks in a restart, and that has no restart
// guard. A Cluster can't have one.
func Durability(f Facts) string {
	const cure = "set appendonly yes and appendfsync always, or keep it down for the longest TTL after a crash"
	if f.Mode == "cluster" {
		return cure
	}
	return "use the restart guard (WithRestartGuard, redlock --guard), or " + cure
}

// Forgets is said of a server without an append-only file, before Durability.
const Forgets = "forgets locks when it is restarted: "
