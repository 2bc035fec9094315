package redlock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// idBytes is the length of an ID before encoding: 96 bits distinguish any two locks.
const idBytes = 12

// ID returns an identifier of the acquisition for logs, metrics and databases. It is 24 hexadecimal
// digits, the first 96 bits of the token's SHA-256, from which the token cannot be derived. A lock,
// its shares, and the handles that Resume makes for it have the same ID. No other lock has it.
func (lk *Lock) ID() string {
	sum := sha256.Sum256([]byte(lk.terms.Token()))
	return hex.EncodeToString(sum[:idBytes])
}

// String describes the lock without its token: names, ID, fence and remaining validity.
func (lk *Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s id=%s", quoted(lk.hold.Names), lk.ID())
	if lk.fence != 0 {
		fmt.Fprintf(&b, " fence=%d", lk.fence)
	}
	fmt.Fprintf(&b, " remaining=%v", max(0, lk.Remaining()).Round(time.Millisecond))
	return b.String()
}

// GoString returns String, so that %#v shows neither the token nor fields that change concurrently.
func (lk *Lock) GoString() string { return lk.String() }

// MarshalJSON returns an object for logs with names, id, fence (omitted without fencing) and
// remaining_ms. Unlike a Claim it cannot be resumed.
func (lk *Lock) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Names     []string `json:"names"`
		ID        string   `json:"id"`
		Fence     int64    `json:"fence,omitempty"`
		Remaining int64    `json:"remaining_ms"`
	}{printable(lk.hold.Names), lk.ID(), lk.fence, max(0, lk.Remaining()).Milliseconds()})
}

// printable returns the names as logs may show them: those of a claim can contain any bytes.
func printable(names []string) []string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = oneline.Printable(n)
	}
	return shown
}

// String describes the Locker by the names of its nodes.
func (l *Locker) String() string {
	return "locker over " + quoted(nodeNames(l.nodes))
}

// GoString returns String, so that %#v shows no field that changes concurrently.
func (l *Locker) GoString() string { return l.String() }
