package main

import (
	"context"
	"strconv"
)

// command is a subcommand: an entry of the table that help, completion, docs/command.md
// and the reading of words all go by.
type subcommand struct {
	name    string
	words   string   // what may stand beside the flags; "" when nothing may
	choices []string // what the word may be, where it is one of a few
	summary string   // one line, as the end of "redlock NAME: …"

	// flags defines them, and returns what is done once they have been read.
	flags func(f *flagSet) runFunc

	about        string // paragraphs with blank lines between them; lines that begin with spaces are shown as they stand
	exitStatuses []exitStatus
	examples     []string
	noJSON       string // why there is no --json, where there is none
}

// runFunc is what a subcommand does.
type runFunc func(ctx context.Context, c *invocation) int

// exitStatus is an exit status, and when it is that of a subcommand.
type exitStatus struct {
	status int
	when   string
}

// childStatus is the status of somebody else.
const childStatus = -1

// label is how a status is written.
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
		statusEntry(), doctorEntry(), benchEntry(), completionEntry(), versionEntry(),
	}
}

// Endings that several have in common.
var (
	endsWell       = exitStatus{exitOK, "success"}
	endsMisused    = exitStatus{exitUsage, "wrong usage"}
	endsNoQuorum   = exitStatus{exitUnavailable, "no quorum of nodes could be reached"}
	endsHeld       = exitStatus{exitHeld, "NAME is held elsewhere, or too many nodes are quarantined (--guard)"}
	endsUnguarded  = exitStatus{exitConfig, "the nodes are guarded for clients with another list or maxTTL, or --guard is missing, or the guard has not begun"}
	endsClaimLost  = exitStatus{exitLost, "the lock is lost: it has expired, or was released"}
	endsQuarantine = exitStatus{exitHeld, "too many nodes are quarantined (--guard)"}
	endsSignal     = exitStatus{exitSignal, "signal n ended it"}
)
