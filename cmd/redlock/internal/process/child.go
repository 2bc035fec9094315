//go:build unix && !aix && !solaris

package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// Command is what a child executes.
type Command struct {
	Path                  string   // of the program
	Words                 []string // the program's name, and its arguments
	Env                   []string
	Stdin, Stdout, Stderr *os.File
}

// Child is the first process of the command. It leads its own process group.
type Child struct {
	Group  Group
	States chan syscall.WaitStatus // each stop, then the end; closed after the end

	barrier *os.File
}

// Start starts the process that becomes the command once Release is called. lend may give it the terminal.
//
// The process leads its own group from its start, so the reaper can be given the group's id
// before the command runs. It inherits the descriptors that this process was started with: the command may
// need them, as make does. Its end of the pipe has another number, and is closed here once it has inherited it.
func Start(c Command, lend func(*syscall.SysProcAttr)) (*Child, error) {
	inner, outer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = inner.Close() }()
	fd, err := syscall.Dup(int(inner.Fd())) // which is inherited
	if err != nil {
		_ = outer.Close()
		return nil, fmt.Errorf("can't start a process: %w", err)
	}
	defer func() { _ = syscall.Close(fd) }()
	cmd := exec.Command(self(), append([]string{StartBarrierMode, strconv.Itoa(fd), c.Path}, c.Words...)...)
	cmd.Env = c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lend(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		_ = outer.Close()
		return nil, fmt.Errorf("can't start a process: %w", err)
	}
	return &Child{Group: Group(cmd.Process.Pid), barrier: outer, States: make(chan syscall.WaitStatus)}, nil
}

// Release lets the command begin.
func (ch *Child) Release() {
	_, _ = ch.barrier.Write([]byte{1}) // fails if the process has already ended: Watch reports that
	_ = ch.barrier.Close()
}

// Abandon ends a process whose command has not begun. Closing the barrier makes the process end
// by itself; SIGKILL ends it also if it is stopped.
func (ch *Child) Abandon() {
	_ = ch.barrier.Close()
	ch.Group.Signal(syscall.SIGKILL)
	for range ch.States { // until it has ended
	}
}

// Watch waits for all children of this process, until none is left: it reports the stops and the end
// of the command, and drops the status of the others. The others are the reaper, and orphans that
// became children of this process (see Adopt): as zombies they would fill the table of processes
// while the command runs. All children have one waiter, so no other can take the command's status.
//
// It uses wait4 because os.Process.Wait does not report stops. Its goroutine ends with the process:
// an orphan that left the group may live longer than the command.
func (ch *Child) Watch() {
	ended := false
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(anyChild, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child is left
			if !ended {
				close(ch.States)
			}
			return
		case !ended && pid == int(ch.Group): // the command leads its group
			ch.States <- ws
			if ended = ws.Exited() || ws.Signaled(); ended {
				close(ch.States)
			}
		}
	}
}

// anyChild makes wait4 wait for every child.
const anyChild = -1

// self returns the path of this program's file. On Linux the link finds the running file even if
// an upgrade has replaced the file while redlock waited for the lock.
func self() string {
	const link = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(link); err == nil {
			return link
		}
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
