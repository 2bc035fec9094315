package wire

import "time"

// Facts are what a server says of itself to the connection that asks. They hold for
// that connection, as of when it was dialled or last looked at: a server may be made
// a replica, or another one take its address, while connections stay open.
type Facts struct {
	// Unread is what the server answered in place of INFO ("NOPERM …"), and empty
	// where all that follows was read.
	Unread string

	RunID   string // of the server's process; 40 hexadecimal digits
	Version string // "7.0.15"
	Mode    string // "standalone", "cluster" or "sentinel"
	Uptime  time.Duration

	Role     string // "master" or "slave", as INFO says it
	Writable bool   // a replica that takes writes (docs/hazards.md H35)
	ReplID2  string // master_replid2: other than zeros where it was a replica before
	Replicas int    // that are connected to it

	MaxMemory int64  // bytes; 0: no limit
	Eviction  string // maxmemory_policy

	AOF           bool // it keeps an append-only file
	AOFFails      bool // the last write to it failed
	SnapshotFails bool // the last snapshot failed

	// Marker is that of the restart guard, in whatever form; empty where there is none, or
	// where MarkerUnread says why it can't be read.
	Marker       string
	MarkerUnread string
	// OldMarker reports that the key of markers of version 1 exists (OldMarkerKey).
	OldMarker bool
	// Backlog: it keeps what replicas that come back would need, and so has or had one.
	Backlog bool

	// Database is the one that the connection is on: as CLIENT INFO says it (Redis
	// 6.2), otherwise the one that was selected.
	Database int
	// Time is the server's own when the connection was made, in Unix microseconds; 0
	// where TIME is denied.
	Time int64
}

// SameServer reports whether nothing has become of the server that asks for looking
// at everything anew: it is the same process, in the same role, of the same history.
func (f Facts) SameServer(g Facts) bool {
	return f.RunID == g.RunID && f.Role == g.Role && f.ReplID2 == g.ReplID2
}

// Diagnosis is the answer to Examine: facts that are fresh, and what only a doctor
// wants to know.
type Diagnosis struct {
	Facts
	// RoundTrip is what one question took.
	RoundTrip time.Duration
	// ClockRead tells whether the node's clock could be read, and Offset by how much it
	// was ahead of this machine's, to within half of the round trip.
	ClockRead bool
	Offset    time.Duration
	// Fsync is appendfsync ("always", "everysec", "no"), and Snapshots tells whether
	// there are save points; Configured, whether the right to CONFIG GET was there to
	// read both.
	Configured bool
	Fsync      string
	Snapshots  bool
	// BacklogTTL is repl-backlog-ttl, in seconds; empty where it can't be read.
	BacklogTTL string
	// Scanned: the keys were looked through, and Alive is one with a TTL that is not in
	// our own namespace, for LiveKeyTTL still; empty when there is none. Unsurveyed is why the
	// server did not let us look.
	Scanned    bool
	ScanDenied string
	LiveKey    string
	LiveKeyTTL time.Duration
	// MissingRights are the rights that the user of the connection lacks: commands ("set",
	// "client|kill"), and patterns of keys and channels as ACL SETUSER takes them
	// ("~redlock:guard", "&redlock:free:app/*").
	MissingRights []string
	// UnknownCommands are the commands, named as rights are, that the server does not know.
	UnknownCommands []string
	// Sentinels is what those said that the node follows; nil where there are none.
	Sentinels []SentinelAnswer
	// Findings is what there is to say of all this.
	Findings []Finding
}

// Persistence is what the node keeps through a restart, in words.
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
