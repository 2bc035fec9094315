package wire

import (
	"fmt"
	"strconv"
)

// Grade is how bad a finding is.
type Grade uint8

// The grades, from harmless to fatal.
const (
	// Note: worth knowing.
	Note Grade = iota
	// Warning: it may go wrong.
	Warning
	// Error: a node with it does not vote.
	Error
)

// String names the grade.
func (g Grade) String() string {
	switch g {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "grade(" + strconv.Itoa(int(g)) + ")"
}

// MarshalText is String, so that JSON has the word.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *Grade) UnmarshalText(text []byte) error {
	for known := Note; known <= Error; known++ {
		if known.String() == string(text) {
			*g = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a grade", text)
}

// Finding is something to say about a node, or about all of them.
type Finding struct {
	Grade Grade `json:"grade"`
	// Code names the kind for programs: "replica", "eviction", …
	Code string `json:"code"`
	// Text names the node, what is wrong, and the cure.
	Text string `json:"text"`
}

// The codes of findings about a node.
const (
	CodeUnreadable  = "unreadable"  // INFO is denied, or says nothing
	CodeSentinel    = "sentinel"    // a Sentinel's port
	CodeCluster     = "cluster"     // a member of a Redis Cluster
	CodeReplica     = "replica"     // writable or not
	CodeVersion     = "version"     // too old
	CodeEviction    = "eviction"    // it may delete keys before their time
	CodeDatabase    = "database"    // the connection is on another one than asked for
	CodeDuplicate   = "duplicate"   // one server under two names
	CodePersistence = "persistence" // what a restart forgets, and writes that fail
	CodeHistory     = "history"     // it was a replica before
	CodeRights      = "rights"      // commands that the user may not run
	CodeUnreachable = "unreachable" // no answer
	CodeClock       = "clock"       // of masters of a Cluster
	CodeSentinels   = "sentinels"   // what the node's Sentinels say
)
