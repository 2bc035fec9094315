//go:build unix && !aix && !solaris

package main

import (
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// supervisor is what there is to watch over while the command runs.
type supervisor struct {
	c        *invocation
	opts     *runOptions
	lock     *redlock.Lock
	in       signalQueue
	tty      *terminal
	deadline *deadline
	child    *child

	lost bool // the command was told to end because the lock is lost
}

// hold runs the command and returns its status, or why there is none. When it
// returns nothing of the command's group is left.
func (o *runOptions) hold(c *invocation, lock *redlock.Lock, in signalQueue) int {
	w := &supervisor{c: c, opts: o, lock: lock, in: in, tty: openTerminal(c.stdin), deadline: newDeadline(lock, o)}
	adopt()
	var err error
	if w.child, err = startChild(o, c, o.environment(c.env, lock), w.tty); err != nil {
		c.say("%v", err)
		return exitSystem
	}
	defer w.tty.takeBack(w.child.group)
	keeper, err := startReaper(w.child.group, w.deadline.left)
	if err != nil {
		w.child.abandon()
		c.say("%v", err)
		return exitSystem
	}
	defer keeper.stop()
	if lock.Context().Err() != nil {
		w.child.abandon()
		c.say("%s was lost before the command began", o.name)
		return exitLost
	}
	in.add(others)
	w.tty.stayAwake()
	w.child.release()
	status := w.supervise()
	w.killRemaining()
	if w.lost {
		return exitLost
	}
	return status
}

// supervise returns the command's status when it has ended.
func (sv *supervisor) supervise() int {
	lost := sv.lock.Context().Done()
	var look <-chan struct{} // at the leash, once the lock is lost
	for {
		select {
		case ws, ok := <-sv.child.states:
			switch {
			case !ok: // somebody else has waited for it
				sv.c.say("what became of %s is unknown", sv.opts.command[0])
				return exitSystem
			case !ws.Stopped():
				sv.child.waiter.Wait()
				return statusOf(ws)
			case sv.stopsJob(ws):
				sv.stopWithJob()
			}
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			lost = nil
			sv.lockLost()
			look = sv.onTick()
		case <-look:
			look = sv.onTick()
		}
	}
}

// lockLost tells the command to end: it has the grace for that, if the lock's validity
// lasts so long.
func (sv *supervisor) lockLost() {
	sv.lost = true
	what := "is lost"
	if sv.lock.Remaining() > 0 {
		what = "can't be extended"
	}
	sv.deadline.markLost()
	left := sv.deadline.left()
	if left <= 0 {
		sv.c.say("%s %s, and its time is over: %s is killed", sv.opts.name, what, sv.opts.command[0])
		return
	}
	sv.c.say("%s %s: %s has %v to end", sv.opts.name, what, sv.opts.command[0], left.Round(time.Millisecond))
	sv.child.group.end()
}

// onTick kills the command when its time is over, and returns when to look again.
func (sv *supervisor) onTick() <-chan struct{} {
	left := sv.deadline.left()
	if left <= 0 {
		sv.child.group.signal(syscall.SIGKILL)
	}
	again, _ := clock.After(sv.deadline.clock, sleepAtMost(left))
	return again
}

// forward passes a signal on to all of the command.
func (sv *supervisor) forward(s os.Signal) {
	if s == syscall.SIGCONT {
		sv.resumeJob()
		return
	}
	if s, ok := s.(syscall.Signal); ok {
		sv.child.group.signal(s)
	}
}
