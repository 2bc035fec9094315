package server

import (
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Config says which server is driven, and what depends on the kind of its node. It does not change.
type Config struct {
	*Shared
	Label    string // of the server, in findings
	Settings *transport.Settings
	Dialer   transport.Dialer // Settings, unless Sentinels or a service's pool say where to dial
	OneSlot  bool             // a script may use keys of one slot only: neither the restart guard's marker nor those of other locks

	// MayVote returns why the server at an address that Sentinels named may not vote. It is asked when a command is written and when
	// a grant is counted. No setting makes an exception from it.
	MayVote func(address string) error
	// Redirect is told a command that was answered by an error. It either takes the command to another server, or returns what is
	// shown in place of the error, or nil. Only the reader of a connection calls it. With nil no command is redirected.
	Redirect func(c *command.Command, err error) (taken bool, shown error)
	// Faults returns what keeps a server from voting, by its facts.
	Faults func(f command.Facts) []command.Fault
	// Ended is told that a connection ended, or could not be made.
	Ended func()
}

// now returns the time of the node's clock.
func (c *Config) now() clock.Instant { return c.Settings.Clock.Now() }

// Counters count what happened since the server was opened.
type Counters struct {
	Written, Answered, Writes    atomic.Int64 // commands that were written, and that were matched to replies; system calls
	Dials, DialFailures          atomic.Int64
	Merged, Unmerged, Violations atomic.Int64
}
