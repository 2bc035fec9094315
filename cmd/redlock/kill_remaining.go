//go:build unix && !aix && !solaris

package main

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// drain is what the rest of a group has to end by itself, once the command has:
// `script > >(tee log)` leaves a tee that has something to write yet.
const drain = 500 * time.Millisecond

// killRemaining ends what the command left behind in its group, so that none of it works on
// without the lock. It returns when the group is empty, or was killed.
func (sv *supervisor) killRemaining() {
	began, told := sv.deadline.clock.Now(), sv.lost
	lost := sv.lock.Context().Done()
	for !sv.child.group.empty() {
		now := sv.deadline.clock.Now()
		switch spent := now.Sub(began); {
		case told && (spent >= sv.opts.grace || sv.deadline.left() <= 0):
			sv.child.group.kill()
			return
		case !told && spent >= drain:
			sv.c.say("%s has ended and left processes behind: they have to end too", sv.opts.command[0])
			sv.child.group.end()
			began, told = now, true
		}
		again, stop := clock.After(sv.deadline.clock, pollInterval)
		select {
		case <-again:
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			lost, told = nil, true
			sv.lockLost()
		}
		stop()
	}
}
