package pool

import (
	"maps"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// guardHistory is what a node remembers of the guard of one node set across connections.
type guardHistory struct {
	asked     bool          // a VerifyMarker was made, on any connection
	server    string        // run ID and replication history of the latest connection
	notBefore clock.Instant // a quarantine that this client saw begin ends no sooner (docs/dev/hazards.md H100)
}

// guardHistories are those of a node, by node set.
//
// The mutex is not the pipeline's: a Cluster or several connections share one node, and each has
// a pipeline. It is taken under pipeline.mu, never the other way round.
type guardHistories struct {
	mu  sync.Mutex // guards what follows; nothing is called under it
	all map[*command.NodeSet]*guardHistory
}

// forNodeSet returns the history of a node set. If the server is another one than at the latest
// connection, this client saw the new run begin, and counts the quarantine from now.
func (m *guardHistories) forNodeSet(f *command.NodeSet, node string, facts command.Facts, now clock.Instant) *guardHistory {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A new run ID is a restart, a new replication ID a promotion. Either may have lost locks.
	own, server := m.all[f], facts.RunID+" "+facts.ReplID2
	switch {
	// The first connection: this client did not see the run begin, so only the node's own clock
	// counts.
	case own == nil:
		own = &guardHistory{server: server}
		if m.all == nil {
			m.all = make(map[*command.NodeSet]*guardHistory)
		}
		m.all[f] = own
	case own.server != server:
		// Counted from now and not from the restart, which may be earlier: a quarantine that is too
		// long is safe.
		own.server, own.notBefore = server, now.Add(f.Guard.Quarantine(node))
	}
	return own
}

// nodeSets returns those for which a VerifyMarker was made.
func (m *guardHistories) nodeSets() []*command.NodeSet {
	// Before the lock below, because forgetEnded takes the same mutex.
	m.forgetEnded()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*command.NodeSet
	for f, own := range m.all {
		if own.asked {
			all = append(all, f)
		}
	}
	return all
}

// forgetEnded drops node sets that have ended.
func (m *guardHistories) forgetEnded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(f *command.NodeSet, _ *guardHistory) bool { return f.Ended() })
}

// begin starts this client's own timer of a quarantine that began with its VerifyMarker.
func (m *guardHistories) begin(own *guardHistory, end clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A second VerifyMarker must not shorten what the first one began.
	own.notBefore = max(own.notBefore, end)
}

// end returns the instant before which no quarantine ends.
func (m *guardHistories) end(own *guardHistory) clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return own.notBefore
}

// verified records that a VerifyMarker is made, and reports whether a quarantine that has passed
// by the node's clock may end.
func (m *guardHistories) verified(own *guardHistory, now clock.Instant) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// From now on every new connection asks for this node set by itself.
	own.asked = true
	return !now.Before(own.notBefore)
}
