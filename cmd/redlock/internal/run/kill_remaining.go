//go:build unix && !aix && !solaris

package run

import (
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// killRemaining ends the processes that the command has left in its groups, so that none of them continues without
// the lock. It returns when none is left or they were killed, and reports whether none is left.
//
// The steps are: wait for cli.Drain, send SIGTERM, and kill after the grace. A loss of the lock skips
// the wait. What appears later, because its parent has ended, gets SIGTERM then, if there is time. The lock is released only
// after this.
func (sv *supervisor) killRemaining() (gone bool) {
	began, asked := sv.deadline.clock.Now(), sv.lost
	lost := sv.lock.Context().Done()
	for len(sv.groups.Left()) > 0 {
		if sv.groups.OwnIsGone() {
			sv.stopReaper() // it must not kill a group that gets the id
		}
		now := sv.deadline.clock.Now()
		switch spent := now.Sub(began); {
		case asked && (spent >= sv.opts.grace || sv.deadline.left() <= 0):
			return sv.groups.Kill()
		case asked:
			sv.groups.End()
		case spent >= cli.Drain:
			sv.groups.End() // before the message, which may block
			sv.c.Say("%s has ended and left processes behind: they have to end too", sv.opts.command[0])
			began, asked = now, true
		}
		again, stop := timer.After(sv.deadline.clock, process.PollInterval)
		select {
		case <-again:
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			if lost = nil; !asked {
				began, asked = sv.deadline.clock.Now(), true
			}
			sv.lockLost()
		}
		stop()
	}
	return true
}
