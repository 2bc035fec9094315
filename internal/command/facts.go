package command

import "time"

// Facts are what a server reports about itself to one connection, as of the dial or the last
// health check. A server may become a replica, or another server may take its address, while
// connections stay open.
type Facts struct {
	// Unread is what the server answered instead of INFO ("NOPERM …"). It is empty if all fields
	// below were read.
	Unread string

	RunID   string // of the server process; 40 hexadecimal digits
	Version string // "7.0.15"
	Mode    string // "standalone", "cluster" or "sentinel"
	Uptime  time.Duration

	Role     string // "master" or "slave", as INFO reports it
	Writable bool   // a replica that accepts writes (docs/dev/hazards.md H35)
	ReplID2  string // master_replid2: not all zeros if the server was a replica before
	Replicas int    // connected replicas

	MaxMemory int64  // bytes; 0: no limit
	Eviction  string // maxmemory_policy

	AOF           bool // the server keeps an append-only file
	AOFFails      bool // the last write to it failed
	SnapshotFails bool // the last snapshot failed

	// Marker is the restart guard's marker, in any form. It is empty if there is none, or if
	// MarkerUnread says why it cannot be read.
	Marker       string
	MarkerUnread string
	// Backlog reports a replication backlog: the server has, or had, a replica.
	Backlog bool

	// Database is the database of the connection: as CLIENT INFO reports it (Redis 6.2),
	// otherwise the selected one.
	Database int
	// Time is the server's time when the connection was made, in Unix microseconds. It is 0 if
	// TIME is denied.
	Time int64
}

// SameServer reports whether f and g are of the same process, in the same role, with the same
// replication history. If not, everything known about the server has to be read again.
func (f Facts) SameServer(g Facts) bool {
	return f.RunID == g.RunID && f.Role == g.Role && f.ReplID2 == g.ReplID2
}

// Diagnosis is the answer to Examine: fresh facts, and what only the doctor needs.
type Diagnosis struct {
	Facts
	// RoundTrip is the duration of one request.
	RoundTrip time.Duration
	// ClockRead reports whether the node's clock could be read. Offset is how far it was ahead of
	// this machine's clock, to within half of the round trip.
	ClockRead bool
	Offset    time.Duration
	// Fsync is appendfsync ("always", "everysec", "no"), and Snapshots reports whether save
	// points are configured. Configured reports whether the right to CONFIG GET allowed both to
	// be read.
	Configured bool
	Fsync      string
	Snapshots  bool
	// BacklogTTL is repl-backlog-ttl, in seconds. It is empty if it cannot be read.
	BacklogTTL string
	// Scanned reports that the keys were scanned. LiveKey is a key with a TTL outside of our own
	// namespace, and LiveKeyTTL its TTL; LiveKey is empty if there is none. ScanDenied is why the
	// server did not allow the scan.
	Scanned    bool
	ScanDenied string
	LiveKey    string
	LiveKeyTTL time.Duration
	// MissingRights are the rights that the user of the connection lacks: commands ("set",
	// "client|kill"), and patterns of keys and channels in the form of ACL SETUSER
	// ("~redlock:guard", "&redlock:free:app/*").
	MissingRights []string
	// UnknownCommands are the commands that the server does not know, named as rights are.
	UnknownCommands []string
	// Sentinels are the answers of the node's Sentinels; nil if it has none.
	Sentinels []SentinelAnswer
	// Findings are the conclusions from all this.
	Findings []Finding
}

// Persistence describes what the node keeps across a restart.
func (e *Diagnosis) Persistence() string {
	switch {
	case e.Unread != "" || e.Role == "":
		return "unknown"
	case e.AOF && e.Configured:
		return "AOF, fsync " + e.Fsync
	case e.AOF:
		return "AOF"
	case !e.Configured:
		return "no AOF"
	case e.Snapshots:
		return "snapshots"
	}
	return "none"
}
