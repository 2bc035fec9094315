package session

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// Marker decides whether a server votes under the restart guard, and when it is asked for its marker (docs/dev/rules.md rules 16
// and 17). It outlives the connections to the server, of which there is at most one at a time: what this client saw of a quarantine
// counts on all of them. It is told what happens. Its owner guards it, sends a VerifyMarker when one is wanted, and has the timer.
// The zero value has no connection.
type Marker struct {
	// Of all connections:
	asked     bool          // a VerifyMarker was made
	server    string        // run ID and replication history of the latest one
	notBefore clock.Instant // a quarantine that this client saw begin ends no sooner (docs/dev/hazards.md H100)

	// Of the present one:
	settings *guard.Settings
	node     string
	proxied  bool
	master   bool          // the server was one when the connection began
	expected any           // what scripts compare with, boxed once; nil before the first guarded command
	state    markerState   // what is known of the marker
	wanted   bool          // a VerifyMarker is to be sent, before any other command
	why      error         // why the server does not vote, unless it is quarantined
	until    clock.Instant // the end of the quarantine; 0 if there is none
	due      clock.Instant // when a VerifyMarker is to be sent because of it; 0: never
}

// markerState is what a connection knows of the marker.
type markerState uint8

const (
	unasked  markerState = iota // nothing
	asking                      // a VerifyMarker is wanted, or under way
	verified                    // the marker is the expected one
	refused                     // it is not: see why and until
)

// Connected is told that a connection begins. If an earlier one asked for the marker, a VerifyMarker is wanted at once, so that a
// quarantine begins as early as possible.
func (m *Marker) Connected() {
	*m = Marker{asked: m.asked, server: m.server, notBefore: m.notBefore}
	if m.asked {
		m.Want()
	}
}

// Identify is told for which node the connection's server votes, once on each connection, at the first use of the guard.
func (m *Marker) Identify(s *guard.Settings, node string, proxied bool, f *Facts, now clock.Instant) {
	m.settings, m.node, m.proxied, m.master = s, node, proxied, f.Role == "master"
	m.sees(f.RunID+" "+f.ReplID2, now)
	runID, replID2 := f.RunID, f.ReplID2
	if proxied { // INFO may come from any server, so its run ID identifies nothing
		runID, replID2 = guard.Proxied, guard.Proxied
	}
	m.expected = s.Marker(runID, replID2, node)
}

// sees is told the run and the history of the server. If they are others than at the latest connection, this client saw the new run
// begin, and counts the quarantine from now.
func (m *Marker) sees(server string, now clock.Instant) {
	// A new run ID is a restart, a new replication ID a promotion. Either may have lost locks.
	// At the first connection this client did not see the run begin, so only the node's own clock counts.
	if m.server != "" && m.server != server {
		// From now and not from the restart, which may be earlier: a quarantine that is too long is safe.
		m.notBefore = now.Add(m.settings.Quarantine(m.node))
	}
	m.server = server
}

// Expected returns the marker with which the scripts of this connection compare; nil before Identify.
func (m *Marker) Expected() any { return m.expected }

// Asked reports whether a VerifyMarker was made, on any connection.
func (m *Marker) Asked() bool { return m.asked }

// Precedes reports whether a VerifyMarker has to be sent before a guarded command. It does on a connection that has not asked yet if
// the command creates a key, or counts an existing one as a held lock (docs/dev/rules.md rule 16).
func (m *Marker) Precedes(op command.Op) bool {
	return m.state == unasked && (op.Creates() || op == command.Inspect)
}

// Want is told that the marker may be another one by now. A VerifyMarker is wanted unless one is under way.
func (m *Marker) Want() {
	if m.state != asking {
		m.state, m.wanted, m.due = asking, true, 0
	}
}

// Wanted reports whether a VerifyMarker is to be sent before any other command.
func (m *Marker) Wanted() bool { return m.wanted }

// Ask is told that a VerifyMarker is made. over is to be sent with it: whether a quarantine that has passed by the node's clock may
// end.
func (m *Marker) Ask(now clock.Instant) (over bool) {
	m.asked, m.state, m.wanted = true, asking, false
	return !now.Before(m.notBefore)
}

// Failed is told that a VerifyMarker was not answered, or by an error. The next command asks again.
func (m *Marker) Failed(why error) {
	m.state, m.wanted, m.why, m.until = unasked, false, why, 0
}

// Answered is told the answer to a VerifyMarker. outdated reports that the server has changed since the connection began, which has
// to end. A server that was a replica then is not outdated when it says so again: with WithUnsafeNodes it may vote for others, and
// it would be dialled without end.
func (m *Marker) Answered(a *guard.MarkerStatus, now clock.Instant) (outdated bool) {
	if a.Status == guard.NoMaster && m.master || a.Status == guard.Marked && !m.proxied && a.Marker != m.expected {
		m.state = unasked // a command that comes now must be able to ask
		return true
	}
	m.state, m.why, m.until = refused, nil, 0
	switch a.Status {
	case guard.Marked:
		m.state = verified
	case guard.Foreign:
		m.why = ForeignMarker(m.node, a.Marker, m.settings)
	case guard.NoMaster:
		m.why = NoMaster(m.node)
	default:
		m.quarantine(a, now)
	}
	return false
}

// quarantine is told that the node is in quarantine.
func (m *Marker) quarantine(a *guard.MarkerStatus, now clock.Instant) {
	full := m.settings.Quarantine(m.node)
	// This client knows when a quarantine that its own VerifyMarker began has begun, so it also measures it by its own clock: the
	// server's may be set forward. A second one must not shorten what the first one began.
	if a.JustBegan {
		m.notBefore = max(m.notBefore, now.Add(full))
	}
	m.until = max(now.Add(min(a.Left, full)), m.notBefore) // the server may say anything
	m.due = max(now.Add(MinAskPause), m.until.Add(time.Millisecond))
}

// MinAskPause is the shortest pause before the next VerifyMarker: a node may answer again and again that its
// quarantine ends at once.
const MinAskPause = 20 * time.Millisecond

// Due returns when a quarantine is over, so that Tick is to be called; 0: never.
func (m *Marker) Due() clock.Instant { return m.due }

// Tick is told that a quarantine is over. The marker is wanted then, unless it was asked for meanwhile.
func (m *Marker) Tick() {
	if m.due != 0 {
		m.Want()
	}
}

// Unmarked is told that a command found another marker than the expected one. waits reports that only the answer to a VerifyMarker
// says why.
func (m *Marker) Unmarked() (waits bool) {
	if m.state == verified {
		m.Want()
	}
	return m.state == asking
}

// NotVoting reports whether the server is known not to vote.
func (m *Marker) NotVoting() bool { return m.state == refused }

// Quarantine returns how much longer the server does not vote, by its own clock and by this client's; false if that is not the reason.
func (m *Marker) Quarantine(now clock.Instant) (left time.Duration, ok bool) {
	return max(0, m.until.Sub(now)), m.until != 0
}

// Why returns why the server does not vote, unless it is quarantined.
func (m *Marker) Why() error {
	if m.why != nil {
		return m.why
	}
	return command.ErrUnmarked
}
