//go:build unix && !aix && !solaris

package main

import (
	"errors"
	"os"
	"syscall"
)

// startBarrierMode is how this binary is called to become the command. It waits at its gate
// and then executes the command in its own place, so that the command has the
// process, and the process group, that were known before it began.
//
// That leaves no moment at which the command runs and nobody would end it:
//   - before the gate opens only this code runs, and it ends when the other end of
//     the gate is closed, which the kernel does if redlock dies;
//   - the gate opens only after the keeper has said that it knows the group, and
//     after one more look at the lock;
//   - from then on the keeper kills the group if redlock dies.
const startBarrierMode = "__gate"

// startBarrierFD is the gate's descriptor: the first of exec.Cmd.ExtraFiles.
const startBarrierFD = 3

// waitStartBarrier never returns when all goes well. Its arguments are the program and the
// command's own words.
func waitStartBarrier(c *invocation, args []string) int {
	if len(args) < 2 {
		return exitUsage
	}
	gate := os.NewFile(startBarrierFD, "gate")
	n, _ := gate.Read(make([]byte, 1))
	_ = gate.Close() // the command gets the standard streams and nothing else
	if n == 0 {
		return exitLost
	}
	err := syscall.Exec(args[0], args[1:], c.env) //nolint:gosec // what it was asked to do
	c.say("%s: can't be executed: %v", args[1], err)
	if errors.Is(err, os.ErrNotExist) { // since it was looked for, or its interpreter
		return exitNotFound
	}
	return exitNotExecutable
}
