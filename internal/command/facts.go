package command

import (
	"bytes"
	"iter"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

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

	Role     string // "master" or "slave", as INFO reports it
	Writable bool   // a replica that accepts writes (docs/dev/hazards.md H35)
	ReplID2  string // master_replid2: not all zeros if the server was a replica before

	MaxMemory int64  // bytes; 0: no limit
	Eviction  string // maxmemory_policy

	AOF bool // the server keeps an append-only file

	// Marker is the restart guard's marker, in any form. It is empty if there is none, or if
	// MarkerUnread says why it cannot be read.
	Marker       string
	MarkerUnread string

	// Database is the database of the connection: as CLIENT INFO reports it (Redis 6.2),
	// otherwise the selected one.
	Database int
}

// SameServer reports whether f and g are of the same process, in the same role, with the same
// replication history. If not, everything known about the server has to be read again.
func (f Facts) SameServer(g Facts) bool {
	return f.RunID == g.RunID && f.Role == g.Role && f.ReplID2 == g.ReplID2
}

// InfoFields returns the names and the values of a reply to INFO, in their order. They are parts of the reply. InfoText
// returns a value as it may be shown.
func InfoFields(info []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for line := range bytes.Lines(info) {
			if i := bytes.IndexByte(line, ':'); i >= 0 && !yield(line[:i], line[i+1:]) {
				return
			}
		}
	}
}

// InfoText returns a value of a reply to INFO as it may be shown. It is a copy: the value would keep the whole reply in
// memory.
func InfoText(value []byte) string { return oneline.Printable(string(bytes.TrimSpace(value))) }
