// Package guard contains the restart guard's marker: what clients agree on, what a node stores, and
// how the two are compared. It is pure. Package command sends what reads and writes the marker, and
// package pool decides by it whether a node votes (docs/dev/rules.md rules 16 to 18).
package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key is the key of the marker that every guarded node keeps:
//
//	version|run_id|master_replid2|maxTTL|S|fingerprint|name|state
//
// with maxTTL and S in milliseconds, the name escaped, and the state "ok" or "q" and the
// instant of the node's own TIME, in milliseconds, until which it is quarantined. It
// has no TTL.
const Key = "redlock:guard"

// Version changes with the marker's form.
const Version = "2"

// Settings are what all guarded clients of the same nodes must agree on. Markers contain it as
// well, so a node refuses a client with other settings (docs/dev/hazards.md H40).
type Settings struct {
	// MaxTTL is the longest TTL of a key, in whole milliseconds. A node that may have forgotten
	// its locks is quarantined for that long.
	MaxTTL time.Duration
	// MaxAge is how much longer the quarantines of a node last, by its name. Only nodes behind
	// Sentinels have an entry. It is set before the guard is used.
	MaxAge map[string]time.Duration
	// Fingerprint identifies the list of nodes.
	Fingerprint string
}

// New returns the settings for a set of nodes.
func New(maxTTL time.Duration, nodes []string) *Settings {
	names := slices.Sorted(slices.Values(nodes))
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return &Settings{MaxTTL: maxTTL, MaxAge: make(map[string]time.Duration), Fingerprint: hex.EncodeToString(sum[:8])}
}

// Quarantine returns how long the node of this name does not vote after it may have forgotten its
// locks.
func (s *Settings) Quarantine(node string) time.Duration { return s.MaxTTL + s.MaxAge[node] }

// Proxied replaces the run ID and the replication history if a proxy hides which server a script
// will run on. The script then fills in those of its server.
const Proxied = "?"

// Marker returns the marker that a node of this name must have to vote, if its server has this
// run ID and history.
func (s *Settings) Marker(runID, replID2, node string) string {
	return strings.Join([]string{Version, runID, replID2, s.Shared(node), "ok"}, "|")
}

// Shared returns the part of a marker that all clients must agree on.
func (s *Settings) Shared(node string) string {
	return strings.Join([]string{milliseconds(s.MaxTTL), milliseconds(s.MaxAge[node]), s.Fingerprint, url.QueryEscape(node)}, "|")
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Status is the state of a node under the guard.
type Status uint8

// The states. Only a Marked node votes.
const (
	Unmarked    Status = iota // unknown, or the node has no marker
	Marked                    // its marker is "ok"
	Quarantined               // it may have forgotten its locks
	Foreign                   // its marker has other settings, or cannot be read
	NoMaster                  // it is a replica
)

// MarkerStatus is the answer to VerifyMarker.
type MarkerStatus struct {
	Status    Status
	Marker    string        // the whole marker, for Marked and Foreign
	Left      time.Duration // of the quarantine, by the node's clock
	JustBegan bool          // this command began the quarantine
}
