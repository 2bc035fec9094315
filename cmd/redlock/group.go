//go:build unix && !aix && !solaris

package main

import (
	"errors"
	"syscall"
	"time"
)

// group is a process group. Its value is the id of the process that leads or led it: the kernel
// does not reuse the id as long as the group has a member.
type group int

func (g group) signal(s syscall.Signal) { _ = syscall.Kill(-int(g), s) }

// empty reports whether the group has no member left. A zombie is a member until its parent has
// waited for it.
func (g group) empty() bool {
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

// end asks all members to end. SIGCONT follows SIGTERM, because a stopped member handles SIGTERM
// only when it continues.
func (g group) end() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

// kill kills all members and waits until they are gone, within maxKillPolls: the lock must not be
// released while a member is still ending. Each round sends SIGKILL again.
func (g group) kill() {
	for range maxKillPolls {
		g.signal(syscall.SIGKILL)
		if g.empty() {
			return
		}
		time.Sleep(pollInterval)
	}
}

const (
	// pollInterval is how often to check whether a group is empty. No event reports that.
	pollInterval = 5 * time.Millisecond
	// maxKillPolls bounds kill: a member that has ended stays a member until its parent has
	// waited for it, and some parents never wait.
	maxKillPolls = 50
)
