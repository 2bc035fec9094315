package command

import (
	"fmt"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// Membership is what a node must know of the Locker that it belongs to. It does not change. The zero value but
// for Clock is that of a node without a Locker.
type Membership struct {
	// Clock is that of Request.NotAfter.
	Clock clock.Clock
	// Guard is the restart guard, or nil.
	Guard *guard.Settings
	// WaitersChannel is that of the key prefix: a string, boxed once.
	WaitersChannel any
	// Unsafe lets the node vote although its server is unfit.
	Unsafe bool
	// Servers are those that vote for the Locker, under any of its nodes. It is nil without a Locker.
	Servers *Servers
}

// Servers is the register of the servers whose connections vote for a Locker. A server is identified by its
// run ID. Under a second name it would vote twice (docs/dev/hazards.md H34). It is safe for concurrent use.
type Servers struct {
	mu      sync.Mutex // guards what follows; nothing is called under it
	byRunID map[string]registration
}

// registration is the name of the node under which a server votes, and the number of connections that
// registered it.
type registration struct {
	node  string
	conns int
}

// NewServers returns an empty register.
func NewServers() *Servers { return &Servers{byRunID: make(map[string]registration)} }

// Join registers that a connection leads to the server with that run ID under the node's name. It
// returns an error that matches ErrUnfit if the server votes under another name already. If Join
// returns nil the connection has to call Leave when it ends.
func (s *Servers) Join(runID, node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byRunID[runID]
	if r.conns > 0 && r.node != node {
		return fmt.Errorf("%w: %s", ErrUnfit, Duplicate(r.node, node, runID).Text)
	}
	s.byRunID[runID] = registration{node, r.conns + 1}
	return nil
}

// Leave reverts one Join.
func (s *Servers) Leave(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byRunID[runID]
	if r.conns--; r.conns == 0 {
		delete(s.byRunID, runID)
		return
	}
	s.byRunID[runID] = r
}

// Duplicate returns the fault that two nodes are one server.
func Duplicate(first, second, runID string) Fault {
	return Fault{CodeDuplicate, fmt.Sprintf(
		"%s and %s are the same server (run_id %.8s…): it would vote twice, and one crash would take two votes; "+
			"take one of the two out of the list and put another master in its place", first, second, runID)}
}
