//go:build unix && !aix && !solaris

package main

import (
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// watch is what there is to watch over while the command runs.
type watch struct {
	c     *call
	p     *plan
	lock  *redlock.Lock
	in    inbox
	tty   *terminal
	leash *leash
	child *child

	lost bool // the command was told to end because the lock is lost
}

// hold runs the command and returns its status, or why there is none. When it
// returns nothing of the command's group is left.
func (p *plan) hold(c *call, lock *redlock.Lock, in inbox) int {
	w := &watch{c: c, p: p, lock: lock, in: in, tty: openTerminal(c.stdin), leash: newLeash(lock, p)}
	adopt()
	var err error
	if w.child, err = startChild(p, c, p.environment(c.env, lock), w.tty); err != nil {
		c.say("%v", err)
		return exitSystem
	}
	defer w.tty.takeBack(w.child.group)
	keeper, err := startKeeper(w.child.group, w.leash.left)
	if err != nil {
		w.child.abandon()
		c.say("%v", err)
		return exitSystem
	}
	defer keeper.dismiss()
	if lock.Context().Err() != nil {
		w.child.abandon()
		c.say("%s was lost before the command began", p.name)
		return exitLost
	}
	in.add(others)
	w.tty.stayAwake()
	w.child.release()
	status := w.supervise()
	w.sweep()
	if w.lost {
		return exitLost
	}
	return status
}

// supervise returns the command's status when it has ended.
func (w *watch) supervise() int {
	lost := w.lock.Context().Done()
	var look <-chan struct{} // at the leash, once the lock is lost
	for {
		select {
		case ws, ok := <-w.child.states:
			switch {
			case !ok: // somebody else has waited for it
				w.c.say("what became of %s is unknown", w.p.command[0])
				return exitSystem
			case !ws.Stopped():
				w.child.waiter.Wait()
				return statusOf(ws)
			case w.stopsJob(ws):
				w.stopWithJob()
			}
		case s := <-w.in:
			w.forward(s)
		case <-lost:
			lost = nil
			w.lose()
			look = w.tick()
		case <-look:
			look = w.tick()
		}
	}
}

// lose tells the command to end: it has the grace for that, if the lock's validity
// lasts so long.
func (w *watch) lose() {
	w.lost = true
	what := "is lost"
	if w.lock.Remaining() > 0 {
		what = "can't be extended"
	}
	w.leash.lose()
	left := w.leash.left()
	if left <= 0 {
		w.c.say("%s %s, and its time is over: %s is killed", w.p.name, what, w.p.command[0])
		return
	}
	w.c.say("%s %s: %s has %v to end", w.p.name, what, w.p.command[0], left.Round(time.Millisecond))
	w.child.group.end()
}

// tick kills the command when its time is over, and returns when to look again.
func (w *watch) tick() <-chan struct{} {
	left := w.leash.left()
	if left <= 0 {
		w.child.group.signal(syscall.SIGKILL)
	}
	again, _ := clock.After(w.leash.clock, nap(left))
	return again
}

// forward passes a signal on to all of the command.
func (w *watch) forward(s os.Signal) {
	if s == syscall.SIGCONT {
		w.goOn()
		return
	}
	if s, ok := s.(syscall.Signal); ok {
		w.child.group.signal(s)
	}
}
