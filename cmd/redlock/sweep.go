//go:build unix && !aix && !solaris

package main

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// drain is what the rest of a group has to end by itself, once the command has:
// `script > >(tee log)` leaves a tee that has something to write yet.
const drain = 500 * time.Millisecond

// sweep ends what the command left behind in its group, so that none of it works on
// without the lock. It returns when the group is empty, or was killed.
func (w *watch) sweep() {
	began, told := w.leash.clock.Now(), w.lost
	lost := w.lock.Context().Done()
	for !w.child.group.empty() {
		now := w.leash.clock.Now()
		switch spent := now.Sub(began); {
		case told && (spent >= w.p.grace || w.leash.left() <= 0):
			w.child.group.kill()
			return
		case !told && spent >= drain:
			w.c.say("%s has ended and left processes behind: they have to end too", w.p.command[0])
			w.child.group.end()
			began, told = now, true
		}
		again, stop := clock.After(w.leash.clock, glance)
		select {
		case <-again:
		case s := <-w.in:
			w.forward(s)
		case <-lost:
			lost, told = nil, true
			w.lose()
		}
		stop()
	}
}
