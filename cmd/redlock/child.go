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

// child is the command's first process, which leads a process group of its own.
type child struct {
	group   group
	barrier *os.File
	states  chan syscall.WaitStatus // stopped, or ended; closed after the end
	waiter  sync.WaitGroup
}

// startChild makes the process that becomes the command once release is called.
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
	_, _ = ch.barrier.Write([]byte{1}) // fails when it has ended already: watch tells
	_ = ch.barrier.Close()
}

// abandon ends a process whose command has not begun.
func (ch *child) abandon() {
	_ = ch.barrier.Close()
	ch.group.signal(syscall.SIGKILL)
	for range ch.states { // until it has ended
	}
	ch.waiter.Wait()
}

// watch reports what becomes of the process. os.Process.Wait would not tell of a
// stop. It is the only one that waits for this process.
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

// statusOf is the exit status that a shell would have of it.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// self is this program's file. On Linux it is found also when an upgrade has put
// another in its place while we waited for the lock.
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
