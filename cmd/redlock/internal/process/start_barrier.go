//go:build unix && !aix && !solaris

package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// StartBarrierMode is the argument that makes this binary wait at the barrier and then execute
// the command in its own process. The command therefore has the process and the process group
// that were known before it began.
//
// So at no moment does the command run without a process that would end it:
//   - before the barrier opens only this code runs. It ends when the other end of the pipe
//     is closed, which the kernel does if redlock dies;
//   - the barrier opens only after the reaper has confirmed that it knows the group, and
//     after one more check of the lock;
//   - from then on the reaper kills the group if redlock dies.
const StartBarrierMode = "__start-barrier"

// ErrAbandoned reports that the command must not begin.
var ErrAbandoned = errors.New("abandoned")

// WaitStartBarrier does not return if the command is executed. Its arguments are the descriptor of the barrier, the path
// of the program and the command's own words.
//
// The read returns no byte if redlock died or abandoned the command.
func WaitStartBarrier(args, env []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	barrier := os.NewFile(uintptr(fd), "barrier")
	n, _ := barrier.Read(make([]byte, 1))
	_ = barrier.Close()
	if n == 0 {
		return ErrAbandoned
	}
	return syscall.Exec(args[1], args[2:], env) //nolint:gosec // what it was asked to do
}
