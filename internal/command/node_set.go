package command

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/guard"
)

// NodeSet is what the nodes of one coordinator have in common: which nodes vote although they are
// unfit, and which server votes under which name. Connections compare it, by its pointer, with
// every command that they carry. A nil NodeSet exempts no node and knows no names. It is safe for
// concurrent use.
type NodeSet struct {
	// Guard is the restart guard, or nil. It is set before the node set is used.
	Guard *guard.Settings

	// WaitersChannel is that of the coordinator's key prefix: a string, boxed once. It is set before
	// the node set is used.
	WaitersChannel any

	ended     atomic.Bool
	unchecked bool
	unsafe    map[string]bool

	mu      sync.Mutex // guards what follows; nothing is called under it
	servers map[string]*registration
}

// registration is the name under which a server votes, and the number of connections that
// registered it.
type registration struct {
	node  string
	conns int
}

// NewNodeSet makes a node set. Nodes with names in unsafe vote although they are unfit; with
// unchecked true all nodes do.
func NewNodeSet(unchecked bool, unsafe ...string) *NodeSet {
	s := &NodeSet{unchecked: unchecked, unsafe: make(map[string]bool, len(unsafe)), servers: map[string]*registration{}}
	for _, name := range unsafe {
		s.unsafe[name] = true
	}
	return s
}

// End reports that the coordinator sends no more requests. Its nodes, which may live on, stop
// checking the restart guard for it.
func (s *NodeSet) End() { s.ended.Store(true) }

// Ended reports whether End was called.
func (s *NodeSet) Ended() bool { return s.ended.Load() }

// Exempts reports whether a node votes although it is unfit.
func (s *NodeSet) Exempts(node string) bool {
	return s != nil && (s.unchecked || s.unsafe[node])
}

// KnowsMaxAge reports whether quarantines of the node of this name last maxTTL and maxAge here.
func (s *NodeSet) KnowsMaxAge(node string, maxAge time.Duration) bool {
	return s != nil && s.Guard != nil && s.Guard.MaxAge[node] == maxAge
}

// Join registers that a connection leads to the server with that run ID under the node's name. It
// returns an error that matches ErrUnfit if the server votes under another name already: a second
// name would let it vote twice (docs/dev/hazards.md H34). If Join returns nil the connection has to
// call Leave when it ends.
func (s *NodeSet) Join(runID, node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.servers[runID]
	switch {
	case v == nil:
		s.servers[runID] = &registration{node: node, conns: 1}
	case v.node == node:
		v.conns++
	default:
		return fmt.Errorf("%w: %s", ErrUnfit, Duplicate(v.node, node, runID).Text)
	}
	return nil
}

// Leave reverts one Join.
func (s *NodeSet) Leave(runID, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.servers[runID]
	if v == nil || v.node != node {
		return
	}
	if v.conns--; v.conns == 0 {
		delete(s.servers, runID)
	}
}

// Duplicate returns the fault that two nodes are one server.
func Duplicate(first, second, runID string) Fault {
	return Fault{CodeDuplicate, fmt.Sprintf(
		"%s and %s are the same server (run_id %.8s…): it would vote twice, and one crash would take two votes; "+
			"take one of the two out of the list and put another master in its place", first, second, runID)}
}
