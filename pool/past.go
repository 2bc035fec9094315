package pool

import (
	"maps"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// past is what a node remembers of the guard of one fleet from connection to
// connection.
type past struct {
	asked  bool          // where the node stands, on any connection
	server string        // run and history of the latest connection
	own    clock.Instant // a quarantine that began in our sight ends no sooner (docs/hazards.md H100)
}

// pasts are a node's, by fleet.
type pasts struct {
	mu  sync.Mutex // guards what follows; nobody is called under it
	all map[*wire.NodeSet]*past
}

// of finds the past of a fleet. When the server is another one than at the latest
// connection its run began in our sight.
func (m *pasts) of(f *wire.NodeSet, node string, facts wire.Facts, now clock.Instant) *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	own, server := m.all[f], facts.RunID+" "+facts.ReplID2
	switch {
	case own == nil:
		own = &past{server: server}
		if m.all == nil {
			m.all = make(map[*wire.NodeSet]*past)
		}
		m.all[f] = own
	case own.server != server:
		own.server, own.own = server, now.Add(f.Guard.Quarantine(node))
	}
	return own
}

// fleets are those that have asked where the node stands.
func (m *pasts) fleets() []*wire.NodeSet {
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
func (m *pasts) forgetEnded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(f *wire.NodeSet, _ *past) bool { return f.Ended() })
}

// begin starts our own timer of a quarantine that began with our question.
func (m *pasts) begin(own *past, end clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.own = max(own.own, end)
}

func (m *pasts) end(own *past) clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return own.own
}

// ask notes that the node was asked where it stands, and reports whether a quarantine
// that has passed by its own clock may end.
func (m *pasts) ask(own *past, now clock.Instant) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.asked = true
	return !now.Before(own.own)
}
