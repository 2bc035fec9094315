//go:build unix && !aix && !solaris

package run

import (
	"errors"
	"os"
	"syscall"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
)

// Mode is the main function of the processes that `run` starts from this file: the one that becomes
// COMMAND, and the reaper. ok is false if this process is neither.
func Mode(inv *cli.Invocation, args []string) (exit int, ok bool) {
	switch {
	case len(args) == 0:
		return 0, false
	case args[0] == process.ReaperMode:
		process.RunReaper(inv.Stdin, inv.Stdout.File)
		return cli.ExitOK, true
	case args[0] != process.StartBarrierMode:
		return 0, false
	case len(args) < 4:
		return cli.ExitUsage, true
	}
	err := process.WaitStartBarrier(args[1:], inv.Env)
	if errors.Is(err, process.ErrAbandoned) {
		return cli.ExitLost, true
	}
	inv.Say("%s: can't be executed: %v", args[3], err)
	if errors.Is(err, os.ErrNotExist) { // the file was removed after find, or its interpreter is missing
		return cli.ExitNotFound, true
	}
	return cli.ExitNotExecutable, true
}

// statusOf returns the exit status that a shell would report.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return cli.ExitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
