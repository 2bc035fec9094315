package session

import (
	"fmt"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// State decides which commands a connection carries, by what its server says of itself (docs/dev/rules.md rules 15, 17 and 18).
// It begins with the connection, and is told the replies that say something of the server. Its owner guards it.
type State struct {
	node   string // in errors
	faults func(command.Facts) []command.Fault

	facts      Facts
	unfit      error // why the server does not vote, by its facts; nil if it may
	check      error // why it does not vote: its last health check was answered by an error
	acquire    error // by which it answered the last acquire; nil after a vote
	registered bool  // it votes for the Locker under the name of this node only
}

// NewState returns the state of a connection that begins. faults says what is wrong with a server that has such facts: see Faults.
func NewState(node string, f Facts, faults func(command.Facts) []command.Fault) State {
	return State{node: node, faults: faults, facts: f, unfit: Unfit(faults(f.Facts))}
}

// Facts returns what the server last said of itself. It must not be changed.
func (s *State) Facts() *Facts { return &s.facts }

// Sound reports whether the server may vote, as far as its facts and its last health check tell.
func (s *State) Sound() bool { return s.unfit == nil && s.check == nil }

// Unfit reports whether the server may not vote by its facts.
func (s *State) Unfit() bool { return s.unfit != nil }

// Failing reports whether the server answered its last health check by an error.
func (s *State) Failing() bool { return s.check != nil }

// Rejecting returns by which error the server answered the last acquire; nil if that was a vote.
func (s *State) Rejecting() error { return s.acquire }

// Exempt reports whether a command is sent whatever the server is. An undo only deletes what this library wrote, so it is right on any
// server. A health check has to reach an unfit one.
func Exempt(op command.Op) bool { return op.Undoes() || op == command.Sweep || op == command.Info }

// Admit returns why a command that is not exempt is not sent for a Locker: the server is unfit, fails its health checks, or is guarded while the Locker is
// not. register reports that the Locker has to be asked first whether the server votes for it under another name: then Registered is
// called.
func (s *State) Admit(c *command.Command, m *command.Membership) (register bool, err error) {
	switch {
	case m.Unsafe:
		return false, nil
	// An extension is exempt: a server that cannot answer INFO may still keep a lock alive, and the lock was granted before.
	case s.check != nil && c.Op != command.Extend:
		return false, s.check
	case s.unfit != nil:
		return false, s.unfit
	case m.Servers == nil:
		return false, nil // it belongs to no Locker
	case m.Guard == nil && s.facts.Marker != "" && c.Informational:
		return false, nil
	case m.Guard == nil && s.facts.Marker != "":
		return false, GuardedNode(s.node, s.facts.Marker)
	}
	return !s.registered, nil
}

// Registered is told that the server votes for the Locker under the name of this node only.
func (s *State) Registered() { s.registered = true }

// RunID returns the run of the server by which it is registered; "" if it is not.
func (s *State) RunID() string {
	if !s.registered {
		return ""
	}
	return s.facts.RunID
}

// Checked is told the reply to INFO. It reports that the server is another one now, or has another role: everything has to be read again,
// on a new connection.
func (s *State) Checked(reply any, err error) (outdated bool) {
	if err != nil && resp.Code(err) != "NOPERM" { // BUSY, or nonsense: it says nothing new about the server
		s.check = fmt.Errorf("pool: %w: %s failed its last health check (INFO): %w", command.ErrUnfit, s.node, resp.Clean(err))
		return false
	}
	next := s.facts
	next.ReadInfo(reply, err)
	// An unreadable INFO does not show another server. It makes this one unfit.
	if next.Unread == "" && !next.SameServer(s.facts.Facts) {
		return true
	}
	s.facts, s.unfit, s.check = next, Unfit(s.faults(next.Facts)), nil
	return false
}

// Acquired is told by which error the server answered an acquire; nil for a vote.
func (s *State) Acquired(why error) { s.acquire = why }

// RoleChanged reports whether an error shows that the server is no longer the master that it was. From one that is known to be a
// replica READONLY is nothing new: otherwise each undo would cost a connection.
func (s *State) RoleChanged(err error) bool {
	switch resp.Code(err) {
	case "LOADING":
		return true
	case "READONLY", "MASTERDOWN":
		return s.facts.Role != "slave"
	}
	return false
}
