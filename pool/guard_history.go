package pool

import "github.com/quorumlock/go-redlock/clock"

// guardHistory is what a pipeline remembers of the restart guard across connections. pipeline.mu guards it.
type guardHistory struct {
	asked     bool          // a VerifyMarker was made, on any connection
	server    string        // run ID and replication history of the latest connection
	notBefore clock.Instant // a quarantine that this client saw begin ends no sooner (docs/dev/hazards.md H100)
}

// connected is told the server of a connection. If it is another one than at the latest connection, this
// client saw the new run begin, and counts the quarantine from now: end is when it ends.
func (h *guardHistory) connected(server string, end clock.Instant) {
	// A new run ID is a restart, a new replication ID a promotion. Either may have lost locks.
	switch h.server {
	case server:
		return
	// The first connection: this client did not see the run begin, so only the node's own clock
	// counts.
	case "":
	// Counted from now and not from the restart, which may be earlier: a quarantine that is too
	// long is safe.
	default:
		h.notBefore = end
	}
	h.server = server
}

// begin starts this client's own timer of a quarantine that began with its VerifyMarker.
func (h *guardHistory) begin(end clock.Instant) {
	// A second VerifyMarker must not shorten what the first one began.
	h.notBefore = max(h.notBefore, end)
}

// verified records that a VerifyMarker is made, and reports whether a quarantine that has passed
// by the node's clock may end.
func (h *guardHistory) verified(now clock.Instant) (over bool) {
	// From now on every new connection asks by itself.
	h.asked = true
	return !now.Before(h.notBefore)
}
