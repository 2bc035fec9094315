//go:build unix && !aix && !solaris

package main

import (
	"errors"
	"syscall"
	"time"
)

// group is a process group, by the id of the process that leads it, or led it: the
// id is not given to another process while any member is left.
type group int

func (g group) signal(s syscall.Signal) { _ = syscall.Kill(-int(g), s) }

// empty reports whether no member is left. It first buries members that have ended
// and were adopted by this process: they count as members until somebody does.
func (g group) empty() bool {
	for {
		pid, err := syscall.Wait4(-int(g), nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

// end tells all members to end, also those that are stopped.
func (g group) end() {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

// kill ends all members, and waits for that as long as it may take: who gives the
// lock to others next must not do so while a member is still being ended.
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
	// pollInterval is how often to look whether a group is empty. No event tells that.
	pollInterval = 5 * time.Millisecond
	// maxKillPolls bounds kill: members that have ended stay members until their parent
	// has noticed, and some parents never do.
	maxKillPolls = 50
)
