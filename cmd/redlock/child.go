//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// child is the first process of the command. It leads its own process group.
type child struct {
	group   group
	barrier *os.File
	states  chan syscall.WaitStatus // each stop, then the end; closed after the end
	waiter  sync.WaitGroup
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
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, c.stderr
	cmd.ExtraFiles = []*os.File{inner}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tty.lend(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		_ = outer.Close()
		return nil, fmt.Errorf("can't start a process: %w", err)
	}
	ch := &child{group: group(cmd.Process.Pid), barrier: outer, states: make(chan syscall.WaitStatus)}
	ch.waiter.Go(func() { ch.watch(cmd.Process.Pid) })
	return ch, nil
}

// release lets the command begin.
func (ch *child) release() {
	_, _ = ch.barrier.Write([]byte{1}) // fails if the process has already ended: watch reports that
	_ = ch.barrier.Close()
}

// abandon ends a process whose command has not begun. Closing the barrier makes the process end
// by itself; SIGKILL ends it also if it is stopped. The states must be drained before the wait,
// because watch blocks until each state is received.
func (ch *child) abandon() {
	_ = ch.barrier.Close()
	ch.group.signal(syscall.SIGKILL)
	for range ch.states { // until it has ended
	}
	ch.waiter.Wait()
}

// watch reports the stops and the end of the process. It uses wait4 because os.Process.Wait does
// not report stops. No other code waits for this process as long as watch runs, so its status
// cannot be lost to another wait.
func (ch *child) watch(pid int) {
	defer close(ch.states)
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return
		}
		ch.states <- ws
		if ws.Exited() || ws.Signaled() {
			return
		}
	}
}

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
