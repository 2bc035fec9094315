//go:build unix && !aix && !solaris

package main

import (
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/redlock"
)

// supervisor watches the command while it runs: its end and its stops, signals, and the lock.
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

// hold runs the command while the lock is held, and returns its exit status. When it returns, no
// process of the command's group is left.
//
// The order keeps the command from running without supervision: the child waits at the start
// barrier until the reaper knows its group, and the lock is checked once more before the barrier
// opens.
func (o *runOptions) hold(c *invocation, lock *redlock.Lock, in signalQueue) int {
	w := &supervisor{c: c, opts: o, lock: lock, in: in, tty: openTerminal(c.stdin), deadline: newDeadline(lock, o)}
	adopt()
	var err error
	if w.child, err = startChild(o, c, o.environment(c.env, lock), w.tty); err != nil {
		c.fail(err, "%v", err)
		return exitSystem
	}
	defer w.tty.reclaim(w.child.group)
	reaper, err := startReaper(w.child.group, w.deadline.left)
	go w.child.watch() // from here on: startReaper waits for a reaper that does not answer
	if err != nil {
		w.child.abandon()
		c.fail(err, "%v", err)
		return exitSystem
	}
	defer reaper.stop()
	if lock.Context().Err() != nil {
		w.child.abandon()
		c.fail(redlock.ErrLost, "%s was lost before the command began", o.name)
		return exitLost
	}
	in.add(others)
	w.tty.stayAwake()
	w.child.release()
	status := w.supervise()
	w.killRemaining()
	if w.lost {
		c.failSilently(redlock.ErrLost, o.name+" was lost while the command ran")
		return exitLost
	}
	return status
}

// supervise returns the command's status after its end.
func (sv *supervisor) supervise() int {
	lost := sv.lock.Context().Done()
	var tick <-chan struct{} // the deadline, once the lock is lost
	for {
		select {
		case ws, ok := <-sv.child.states:
			switch {
			case !ok: // another part of this process has waited for it
				sv.c.fail(nil, "the exit status of %s is unknown", sv.opts.command[0])
				return exitSystem
			case !ws.Stopped():
				return statusOf(ws)
			case sv.stopsJob(ws):
				sv.stopWithJob()
			}
		case s := <-sv.in:
			sv.forward(s)
		case <-lost:
			lost = nil
			sv.lockLost()
			tick = sv.onTick()
		case <-tick:
			tick = sv.onTick()
		}
	}
}

// lockLost asks the command to end. The command has the grace for that, or what is left of the
// validity if that is less.
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

// onTick kills the command if its time is over. It returns a channel that is closed when it must be
// called again.
func (sv *supervisor) onTick() <-chan struct{} {
	left := sv.deadline.left()
	if left <= 0 {
		sv.child.group.signal(syscall.SIGKILL)
	}
	again, _ := timer.After(sv.deadline.clock, sleepAtMost(left))
	return again
}

// forward passes a signal on to the whole group of the command.
func (sv *supervisor) forward(s os.Signal) {
	if s == syscall.SIGCONT {
		sv.resumeJob()
		return
	}
	if s, ok := s.(syscall.Signal); ok {
		sv.child.group.signal(s)
	}
}
