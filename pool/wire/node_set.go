package wire

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// NodeSet is what the nodes of one coordinator have in common: whose errors it is
// willing to live with, and which server votes under which name. Connections hold it
// against every command that they carry, by its pointer, which costs nothing once a
// node set is known. A nil NodeSet exempts no node and knows no names. It is safe for
// concurrent use.
type NodeSet struct {
	// Guard is the restart guard; nil without. It is set before the fleet is used.
	Guard *Guard

	ended     atomic.Bool
	unchecked bool
	unsafe    map[string]bool

	mu      sync.Mutex // guards what follows; nobody is called under it
	servers map[string]*registration
}

// registration is the name under which a server votes, and how many connections say so.
type registration struct {
	node  string
	conns int
}

// NewNodeSet makes a fleet. Nodes whose names are in unsafe vote whatever is found of
// them; with unchecked true all do.
func NewNodeSet(unchecked bool, unsafe ...string) *NodeSet {
	f := &NodeSet{unchecked: unchecked, unsafe: make(map[string]bool, len(unsafe)), servers: map[string]*registration{}}
	for _, name := range unsafe {
		f.unsafe[name] = true
	}
	return f
}

// End says that the coordinator asks no more: its nodes, which may live on, stop looking
// after the restart guard for it.
func (f *NodeSet) End() { f.ended.Store(true) }

// Ended reports whether End was called.
func (f *NodeSet) Ended() bool { return f.ended.Load() }

// Exempts reports whether a node votes whatever is found of it.
func (f *NodeSet) Exempts(node string) bool {
	return f != nil && (f.unchecked || f.unsafe[node])
}

// KnowsMaxAge reports whether quarantines of the node of this name last so much longer than
// maxTTL here.
func (f *NodeSet) KnowsMaxAge(node string, by time.Duration) bool {
	return f != nil && f.Guard != nil && f.Guard.MaxAge[node] == by
}

// Join says that a connection leads to the server of that run ID under the node's
// name. An error, which matches ErrUnfit, means that the server votes under another
// name already: a second one would make it vote twice (docs/hazards.md H34). After nil
// the connection has to Leave when it ends.
func (f *NodeSet) Join(runID, node string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.servers[runID]
	switch {
	case v == nil:
		f.servers[runID] = &registration{node: node, conns: 1}
	case v.node == node:
		v.conns++
	default:
		return fmt.Errorf("%w: %s", ErrUnfit, Duplicate(v.node, node, runID).Text)
	}
	return nil
}

// Leave takes back one Join.
func (f *NodeSet) Leave(runID, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.servers[runID]
	if v == nil || v.node != node {
		return
	}
	if v.conns--; v.conns == 0 {
		delete(f.servers, runID)
	}
}

// Duplicate is the finding that two nodes are one server.
func Duplicate(first, second, runID string) Finding {
	return Finding{Error, CodeDuplicate, fmt.Sprintf(
		"%s and %s are the same server (run_id %.8s…): it would vote twice, and one crash would take two votes; "+
			"take one of the two out of the list and put another master in its place", first, second, runID)}
}
