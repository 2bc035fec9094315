package command

// Grade is how severe a finding is.
type Grade string

// The grades, from harmless to fatal.
const (
	Note    Grade = "note"    // worth knowing
	Warning Grade = "warning" // a risk
	Error   Grade = "error"   // keeps a node from voting
)

// Finding is a problem or a remark about one node or about all of them.
type Finding struct {
	Grade Grade
	// Code names the kind for programs: "replica", "eviction" and so on.
	Code string
	// Text names the node, the problem and the remedy.
	Text string
}

// The codes of findings about a node.
const (
	CodeUnreadable  = "unreadable"  // INFO is denied or unusable
	CodeSentinel    = "sentinel"    // a Sentinel's port
	CodeCluster     = "cluster"     // a member of a Redis Cluster
	CodeReplica     = "replica"     // writable or not
	CodeVersion     = "version"     // too old
	CodeEviction    = "eviction"    // the server may delete keys before they expire
	CodeDatabase    = "database"    // the connection uses another database than configured
	CodeDuplicate   = "duplicate"   // one server under two names
	CodePersistence = "persistence" // what a restart loses, and writes that fail
	CodeHistory     = "history"     // the server was a replica before
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
