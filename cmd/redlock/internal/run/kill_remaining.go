//go:build unix && !aix && !solaris

package run

import (
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// killRemaining ends the processes that the command left in its group, so that none of them
// continues without the lock. It returns when the group is empty or was killed.
//
// The steps are: wait for cli.Drain, send SIGTERM, and kill after the grace. A loss of the lock skips
// the wait. The lock is released only after this.
func (sv *supervisor) killRemaining() {
	began, asked := sv.deadline.clock.Now(), sv.lost
	lost := sv.lock.Context().Done()
	for !sv.child.Group.Empty() {
		now := sv.deadline.clock.Now()
		switch spent := now.Sub(began); {
		case asked && (spent >= sv.opts.grace || sv.deadline.left() <= 0):
			sv.child.Group.Kill()
			return
		case !asked && spent >= cli.Drain:
			sv.c.Say("%s has ended and left processes behind: they have to end too", sv.opts.command[0])
			sv.child.Group.End()
			began, asked = now, true
		}
		again, stop := timer.After(sv.deadline.clock, process.PollInterval)
		select {
		case <-again:
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			lost, asked = nil, true
			sv.lockLost()
		}
		stop()
	}
}
