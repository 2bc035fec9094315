package command

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

// Forgets is said of a server without an append-only file, before Durability.
const Forgets = "forgets locks when it is restarted: "

// Durability returns what to do about a server that may lose locks in a restart, and that has no restart
// guard. A Cluster can't have one.
func Durability(f Facts) string {
	const cure = "set appendonly yes and appendfsync always, or keep it down for the longest TTL after a crash"
	if f.Mode == "cluster" {
		return cure
	}
	return "use the restart guard (WithRestartGuard, redlock --guard), or " + cure
}
