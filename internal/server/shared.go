package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// Shared is what the servers of one node share: what does not change, the Locker that the node belongs to, and the room for undos
// that will be sent once more. It is safe for concurrent use. Its exported fields do not change after NewShared.
type Shared struct {
	Name    string // of the node, in votes and errors
	Queue   int    // bounds the commands that wait to be written to each server, but for undos
	Proxied bool
	Log     func(msg string, err error) // logs an event of the node's connections; it must not block
	// Quarantined returns the error of a server that the restart guard quarantines for so much longer.
	Quarantined func(left time.Duration) error

	unowned *command.Membership // of a node without a Locker
	member  atomic.Pointer[command.Membership]
	pruned  *background.Queue[droppedCommand] // answers them

	parked, dropped atomic.Int64
	dropping        atomic.Bool // a dropped undo was logged: see countDropped
	forgetful       atomic.Bool // it was logged that the node may forget locks
}

// NewShared completes the Shared of a node without a Locker, whose exported fields are set.
func NewShared(c clock.Clock, s *Shared) *Shared {
	s.unowned = &command.Membership{Clock: c}
	s.member.Store(s.unowned)
	s.pruned = background.NewQueue(0, droppedCommand.fail)
	return s
}

// Join gives the node to a Locker, and reports false if it belongs to one.
func (s *Shared) Join(m *command.Membership) bool { return s.member.CompareAndSwap(s.unowned, m) }

// Leave reverts Join.
func (s *Shared) Leave() { s.member.Store(s.unowned) }

// Member returns what the node knows of its Locker.
func (s *Shared) Member() *command.Membership { return s.member.Load() }

// Parked returns how many undos will be sent once more, and how many were dropped because there was no room.
func (s *Shared) Parked() (parked, dropped int64) { return s.parked.Load(), s.dropped.Load() }

// Wait waits until all commands are answered that were given up, but no longer than limit. It is for a node that is closed.
func (s *Shared) Wait(c clock.Clock, limit time.Duration) { s.pruned.Join(c, limit) }

// admitsUndo counts an undo that will be sent once more, and reports false if there are too many.
func (s *Shared) admitsUndo() bool {
	// Counted first and taken back if it was too many, so that concurrent calls never exceed the bound.
	if s.parked.Add(1) <= undo.MaxParked {
		return true
	}
	s.releaseUndo()
	s.countDropped(errTooManyParked)
	return false
}

var errTooManyParked = fmt.Errorf(
	"pool: %d undos are waiting: further undos are dropped, and their keys remain until their TTL", undo.MaxParked)

// releaseUndo removes an undo from the count. When none is left, the next dropped undo is logged again.
func (s *Shared) releaseUndo() {
	if s.parked.Add(-1) == 0 {
		s.dropping.Store(false)
	}
}

// countDropped counts an undo that is not kept, and logs the first one, until no undo is parked.
func (s *Shared) countDropped(why error) {
	if s.dropped.Add(1); !s.dropping.Swap(true) {
		s.Log("undos are dropped", why)
	}
}

// noteForgetful logs once that a server of the node forgets in a restart what it acknowledged, if the Locker has no restart guard.
// INFO shows whether there is an append-only file, and not when it is written: of that only the doctor knows.
func (s *Shared) noteForgetful(label string, f command.Facts) {
	if s.Member().Guard == nil && !f.AOF && !s.forgetful.Swap(true) {
		s.Log("may forget locks", errors.New(label+" "+command.Forgets+command.Durability(f)))
	}
}
