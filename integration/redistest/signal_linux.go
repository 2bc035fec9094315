package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// ofContainer returns the process with that number if it is the container's, on this machine, and may
// be signalled. Otherwise it returns nil.
func ofContainer(pid int, id string) *os.Process {
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid) // by a handle: no other process that gets the number is signalled
	if err != nil {
		return nil
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(groups), id) || p.Signal(syscall.Signal(0)) != nil {
		_ = p.Release()
		return nil
	}
	return p
}

// stop stops a process, and reports whether it stands still. If not, it runs again.
func stop(p *os.Process) bool {
	if p.Signal(syscall.SIGSTOP) != nil {
		return false
	}
	if polled(10*time.Second, time.Millisecond, func() bool { return isStopped(p.Pid) }) {
		return true
	}
	_ = resume(p)
	return false
}

// end kills a process, and reports whether it is gone. One that Docker has paused does not end. On a busy machine
// the parent takes seconds to see the end.
func end(p *os.Process) bool {
	if err := p.Kill(); err != nil {
		return errors.Is(err, os.ErrProcessDone)
	}
	return polled(time.Minute, time.Millisecond, func() bool {
		return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) // its parent has seen its end, so no thread is left
	})
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// isStopped reports whether a process has executed the signal: it may be sent to one that runs on
// another processor.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")) // 17 (redis-server) T 1 …
	return err == nil && found && bytes.HasPrefix(state, []byte("T"))
}
