//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is the first process of the command. It leads its own process group.
type child struct {
	group   group
	barrier *os.File
	states  chan syscall.WaitStatus // each stop, then the end; closed after the end
}

// startChild starts the process that becomes the command once release is called.
//
// The process leads its own group from its start, so the reaper can be given the group's id
// before the command runs. Its end of the pipe is closed here once the process has inherited it.
func startChild(p *runOptions, c *invocation, env []string, tty *terminal) (*child, error) {
	inner, outer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = inner.Close() }()
	cmd := exec.Command(self(), append([]string{startBarrierMode, p.program}, p.command...)...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout.file, c.stderr
	cmd.ExtraFiles = []*os.File{inner}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tty.lend(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		_ = outer.Close()
		return nil, fmt.Errorf("can't start a process: %w", err)
	}
	return &child{group: group(cmd.Process.Pid), barrier: outer, states: make(chan syscall.WaitStatus)}, nil
}

// release lets the command begin.
func (ch *child) release() {
	_, _ = ch.barrier.Write([]byte{1}) // fails if the process has already ended: watch reports that
	_ = ch.barrier.Close()
}

// abandon ends a process whose command has not begun. Closing the barrier makes the process end
// by itself; SIGKILL ends it also if it is stopped.
func (ch *child) abandon() {
	_ = ch.barrier.Close()
	ch.group.signal(syscall.SIGKILL)
	for range ch.states { // until it has ended
	}
}

// watch waits for all children of this process, until none is left: it reports the stops and the end
// of the command, and drops the status of the others. The others are the reaper, and orphans that
// became children of this process (see adopt): as zombies they would fill the table of processes
// while the command runs. All children have one waiter, so no other can take the command's status.
//
// It uses wait4 because os.Process.Wait does not report stops. Its goroutine ends with the process:
// an orphan that left the group may live longer than the command.
func (ch *child) watch() {
	ended := false
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(anyChild, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child is left
			if !ended {
				close(ch.states)
			}
			return
		case !ended && pid == int(ch.group): // the command leads its group
			ch.states <- ws
			if ended = ws.Exited() || ws.Signaled(); ended {
				close(ch.states)
			}
		}
	}
}

// anyChild makes wait4 wait for every child.
const anyChild = -1

// statusOf returns the exit status that a shell would report.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

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
