package pool

import (
	"maps"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// guardHistory is what a node remembers of the guard of one fleet from connection to
// connection.
type guardHistory struct {
	asked     bool          // where the node stands, on any connection
	server    string        // run and history of the latest connection
	notBefore clock.Instant // a quarantine that began in our sight ends no sooner (docs/hazards.md H100)
}

// guardHistories are a node's, by fleet.
type guardHistories struct {
	mu  sync.Mutex // guards what follows; nobody is called under it
	all map[*wire.NodeSet]*guardHistory
}

// forNodeSet finds the past of a fleet. When the server is another one than at the latest
// connection its run began in our sight.
func (m *guardHistories) forNodeSet(f *wire.NodeSet, node string, facts wire.Facts, now clock.Instant) *guardHistory {
	m.mu.Lock()
	defer m.mu.Unlock()
	own, server := m.all[f], facts.RunID+" "+facts.ReplID2
	switch {
	case own == nil:
		own = &guardHistory{server: server}
		if m.all == nil {
			m.all = make(map[*wire.NodeSet]*guardHistory)
		}
		m.all[f] = own
	case own.server != server:
		own.server, own.notBefore = server, now.Add(f.Guard.Quarantine(node))
	}
	return own
}

// nodeSets are those that have asked where the node stands.
func (m *guardHistories) nodeSets() []*wire.NodeSet {
	m.forgetEnded()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*wire.NodeSet
	for f, own := range m.all {
		if own.asked {
			all = append(all, f)
		}
	}
	return all
}

// forgetEnded drops fleets that have ended.
func (m *guardHistories) forgetEnded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(f *wire.NodeSet, _ *guardHistory) bool { return f.Ended() })
}

// begin starts our own timer of a quarantine that began with our question.
func (m *guardHistories) begin(own *guardHistory, end clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.notBefore = max(own.notBefore, end)
}

func (m *guardHistories) end(own *guardHistory) clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return own.notBefore
}

// verified notes that the node was asked where it stands, and reports whether a quarantine
// that has passed by its own clock may end.
func (m *guardHistories) verified(own *guardHistory, now clock.Instant) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.asked = true
	return !now.Before(own.notBefore)
}
