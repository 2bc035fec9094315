package examine

import (
	"math"
	"strconv"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Diagnosis is what the examination of a node found: fresh facts, and what only the doctor needs.
type Diagnosis struct {
	command.Facts
	address string // that Sentinels named
	// RoundTrip is the duration of one request.
	RoundTrip time.Duration
	// ClockRead reports whether the node's clock could be read. Offset is how far it was ahead of
	// this machine's clock, to within half of the round trip.
	ClockRead bool
	Offset    time.Duration
	Time      int64 // of the node, in Unix microseconds; 0 if it could not be read
	Uptime    time.Duration
	Replicas  int // connected replicas
	// Backlog reports a replication backlog: the server has, or had, a replica.
	Backlog    bool
	UsedMemory int64 // bytes; 0 if it is unknown
	// The last write to the append-only file, or the last snapshot, failed.
	AOFFails, SnapshotFails bool
	// Fsync is appendfsync ("always", "everysec", "no"), UnsyncedRewrites reports
	// no-appendfsync-on-rewrite, and Snapshots whether save points are configured. Configured
	// reports whether the right to CONFIG GET allowed these to be read.
	Configured       bool
	Fsync            string
	UnsyncedRewrites bool
	Snapshots        bool
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
	// Refuses is why the server refuses a write that its user may make ("NOREPLICAS …"). It is empty if it does not.
	Refuses string
	// Findings are the conclusions from all this.
	Findings []Finding
}

// readInfo reads what the handshake of a connection leaves out of INFO.
func (e *Diagnosis) readInfo(info []byte) {
	for name, value := range command.InfoFields(info) {
		text := command.InfoText(value)
		switch string(name) {
		case "uptime_in_seconds":
			e.Uptime = time.Duration(count(text)) * time.Second
		case "connected_slaves":
			e.Replicas = count(text)
		case "repl_backlog_active":
			e.Backlog = text == "1"
		case "used_memory":
			e.UsedMemory, _ = strconv.ParseInt(text, 10, 64)
		case "aof_last_write_status":
			e.AOFFails = text == "err"
		case "rdb_last_bgsave_status":
			e.SnapshotFails = text == "err"
		}
	}
}

// count returns a number from 0 to the largest int32, and 0 for what is none.
func count(text string) int {
	n, _ := strconv.ParseInt(text, 10, 64)
	return int(max(0, min(n, math.MaxInt32)))
}

// Unknown is the Persistence of a node that does not tell it.
const Unknown = "unknown"

// Persistence describes what the node keeps across a restart.
func (e *Diagnosis) Persistence() string {
	switch {
	case e.Unread != "" || e.Role == "":
		return Unknown
	case e.AOF && e.Configured && e.Fsync == "always" && e.UnsyncedRewrites:
		return "AOF, fsync not in rewrites"
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
