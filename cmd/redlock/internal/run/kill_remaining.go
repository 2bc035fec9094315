//go:build unix && !aix && !solaris

package run

import (
	"slices"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// killRemaining ends the processes that the command left in its group, and on Linux those that have left
// the group but not the session, so that none of them continues without the lock. It returns when none is
// left or they were killed, and reports whether none is left.
//
// The steps are: wait for cli.Drain, send SIGTERM, and kill after the grace. A loss of the lock skips
// the wait. The lock is released only after this.
func (sv *supervisor) killRemaining() (gone bool) {
	began, asked := sv.deadline.clock.Now(), sv.lost
	lost := sv.lock.Context().Done()
	if asked { // the group alone
		endAll(sv.strays())
	}
	for rest := sv.remaining(); len(rest) > 0; rest = sv.remaining() {
		now := sv.deadline.clock.Now()
		switch spent := now.Sub(began); {
		case asked && (spent >= sv.opts.grace || sv.deadline.left() <= 0):
			return sv.killAll()
		case !asked && spent >= cli.Drain:
			endAll(rest) // before the message, which may block
			sv.c.Say("%s has ended and left processes behind: they have to end too", sv.opts.command[0])
			began, asked = now, true
		}
		again, stop := timer.After(sv.deadline.clock, process.PollInterval)
		select {
		case <-again:
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			lost, asked = nil, true
			endAll(rest)
			sv.lockLost()
		}
		stop()
	}
	return true
}

// remaining returns the groups of processes that the command has left behind.
func (sv *supervisor) remaining() []process.Group {
	groups := sv.strays()
	if g := sv.child.Group; !g.Empty() && !slices.Contains(groups, g) {
		groups = append(groups, g)
	}
	return groups
}

// strays returns those that have left the command's group.
func (sv *supervisor) strays() []process.Group {
	return slices.DeleteFunc(process.Strays(), func(g process.Group) bool { return slices.Contains(sv.others, g) })
}

func endAll(groups []process.Group) {
	for _, g := range groups {
		g.End()
	}
}

// killAll kills what remains, also what becomes an orphan meanwhile. It reports whether nothing is left.
func (sv *supervisor) killAll() (gone bool) {
	for range 3 { // a group that is killed may leave orphans of another one
		gone = true
		for _, g := range sv.remaining() {
			gone = g.Kill() && gone
		}
	}
	return gone && len(sv.remaining()) == 0
}
