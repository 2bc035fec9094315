package main

import (
	"context"
	"strconv"
)

// command is a subcommand: an entry of the table that help, completion, docs/command.md
// and the reading of words all go by.
type command struct {
	name    string
	words   string   // what may stand beside the flags; "" when nothing may
	choices []string // what the word may be, where it is one of a few
	summary string   // one line, as the end of "redlock NAME: …"

	// flags defines them, and returns what is done once they have been read.
	flags func(f *form) body

	about    string // paragraphs with blank lines between them; lines that begin with spaces are shown as they stand
	endings  []ending
	examples []string
	noJSON   string // why there is no --json, where there is none
}

// body is what a subcommand does.
type body func(ctx context.Context, c *call) int

// ending is an exit status, and when it is that of a subcommand.
type ending struct {
	status int
	when   string
}

// theirs is the status of somebody else.
const theirs = -1

// label is how a status is written.
func (e ending) label() string {
	switch e.status {
	case theirs:
		return "n"
	case exitSignal:
		return "128+n"
	}
	return strconv.Itoa(e.status)
}

// commands is the table, in the order in which it is shown.
func commands() []command {
	return []command{
		demoEntry(), runEntry(), acquireEntry(), extendEntry(), releaseEntry(),
		statusEntry(), doctorEntry(), benchEntry(), completionEntry(), versionEntry(),
	}
}

// Endings that several have in common.
var (
	endsWell       = ending{exitOK, "all went well"}
	endsMisused    = ending{exitUsage, "wrong usage"}
	endsNoQuorum   = ending{exitUnavailable, "no quorum of masters could be reached"}
	endsHeld       = ending{exitHeld, "NAME is held elsewhere, or too many masters are quarantined (--guard)"}
	endsUnguarded  = ending{exitConfig, "the masters are guarded for others: with another list, another maxTTL, or --guard is missing; or the guard has not begun"}
	endsClaimLost  = ending{exitLost, "the lock is lost: it has expired, or was released"}
	endsQuarantine = ending{exitHeld, "too many masters are quarantined (--guard)"}
	endsSignal     = ending{exitSignal, "signal n ended it"}
)
