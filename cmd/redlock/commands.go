package main

import (
	"context"
	"strconv"
)

// subcommand is an entry of the table of subcommands. Help, completion, docs/command.md and the
// parsing of arguments all use this table.
type subcommand struct {
	name     string
	args     string   // the arguments beside the flags; "" if there may be none
	choices  []string // the values of the word, if it has a fixed set
	heldName bool     // the word is a name that is held: a shell completes it
	summary  string   // one line, as the end of "redlock NAME: …"

	// flags defines the flags, and returns the function that runs after they were parsed.
	flags func(f *flagSet) runFunc

	about        string // paragraphs with blank lines between them; lines that begin with spaces are not wrapped
	exitStatuses []exitStatus
	examples     []string
	noJSON       string // why there is no --json; "" if there is
}

// runFunc executes a subcommand and returns its exit status.
type runFunc func(ctx context.Context, c *invocation) int

// exitStatus is an exit status, and the condition under which a subcommand returns it.
type exitStatus struct {
	status int
	when   string
}

// childStatus is the status of a command, which redlock passes on.
const childStatus = -1

// label returns the status as help prints it.
func (e exitStatus) label() string {
	switch e.status {
	case childStatus:
		return "n"
	case exitSignal:
		return "128+n"
	}
	return strconv.Itoa(e.status)
}

// commands is the table, in the order in which it is shown.
func commands() []subcommand {
	return []subcommand{
		demoEntry(), runEntry(), acquireEntry(), extendEntry(), releaseEntry(),
		statusEntry(), listEntry(), breakEntry(), doctorEntry(), benchEntry(), completionEntry(), versionEntry(),
	}
}

// Endings that several have in common.
var (
	endsWell       = exitStatus{exitOK, "success"}
	endsMisused    = exitStatus{exitUsage, "wrong usage"}
	endsForeign    = exitStatus{exitForeign, "the key of NAME holds a value that is not a lock"}
	endsNoQuorum   = exitStatus{exitUnavailable, "no quorum of nodes could be reached"}
	endsHeld       = exitStatus{exitHeld, "NAME is held elsewhere, or too many nodes are quarantined (--guard)"}
	endsUnguarded  = exitStatus{exitConfig, "the nodes are guarded for clients with another list or maxTTL, or --guard is missing, or the guard has not begun"}
	endsClaimLost  = exitStatus{exitLost, "the lock is lost: it has expired, or was released"}
	endsQuarantine = exitStatus{exitHeld, "too many nodes are quarantined (--guard)"}
	endsUnwritten  = exitStatus{exitSystem, "the output could not be written; what was asked for is done"}
	endsSignal     = exitStatus{exitSignal, "signal n ended it"}
)
