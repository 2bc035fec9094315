//go:build unix && !aix && !solaris

package process

import (
	"slices"
	"syscall"
	"time"
)

// Groups are the process groups of a command: its own and, on Linux, those of its orphans that have left
// it, but not the session, as `timeout` does in a script. One goroutine uses them.
type Groups struct {
	own    Group
	gone   bool    // its own group was empty once: the kernel may give its id to another group
	adopts bool    // orphans that become children of this process are the command's
	asked  []Group // those that got SIGTERM
}

// Groups returns the groups of the command. If adopts is true, orphans that become children of this
// process are the command's (see Adopt).
func (ch *Child) Groups(adopts bool) *Groups { return &Groups{own: ch.Group, adopts: adopts} }

// Signal sends a signal to the command's own group.
func (g *Groups) Signal(s syscall.Signal) {
	if g.gone {
		return
	}
	g.own.Signal(s)
	if s == syscall.SIGTERM {
		g.asked = append(g.asked, g.own)
	}
}

// OwnIsGone reports whether Left has seen that the command's own group is empty.
func (g *Groups) OwnIsGone() bool { return g.gone }

// Left returns the groups that have members.
func (g *Groups) Left() (left []Group) {
	g.gone = g.gone || g.own.Empty()
	if g.adopts { // after the own group: the last process of it may leave an orphan
		left = strays()
	}
	if !g.gone && !slices.Contains(left, g.own) {
		left = append(left, g.own)
	}
	return left
}

// End asks all members to end, once: a program may take a second SIGTERM for an order to end at once. What
// Signal has sent counts.
func (g *Groups) End() {
	for _, left := range g.Left() {
		if !slices.Contains(g.asked, left) {
			g.asked = append(g.asked, left)
			left.End()
		}
	}
}

// Kill kills all members, also those of a group that appears meanwhile, until none is left: the lock must
// not be released while a member is still ending. It reports whether none is left. It gives up after
// maxKillPolls: a process of another user can't be killed, nor one that waits for a disk, and a zombie is
// left while its parent has not waited for it.
func (g *Groups) Kill() (gone bool) {
	for range maxKillPolls {
		left := g.Left()
		for _, group := range left {
			group.Signal(syscall.SIGKILL)
		}
		if len(left) == 0 {
			return true
		}
		time.Sleep(PollInterval)
	}
	return false
}

const (
	// PollInterval is how often to check whether a group is empty. No event reports that.
	PollInterval = 5 * time.Millisecond
	maxKillPolls = 200
)
