//go:build unix && !aix && !solaris

package run

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/redlock"
)

// supervisor watches the command while it runs: its end and its stops, signals, and the lock.
type supervisor struct {
	c        *cli.Invocation
	opts     *runOptions
	lock     *redlock.Lock
	in       cli.Signals
	tty      *terminal.Terminal
	deadline *deadline
	child    *process.Child
	groups   *process.Groups

	stopReaper func() // may be called again

	lost   bool // the command was told to end because the lock is lost
	mayEnd bool // it was given time to end
}

// hold runs the command while the lock is held, and returns its exit status. When it returns, no
// process of the command's group is left, unless gone is false.
//
// The order keeps the command from running without supervision: the child waits at the start
// barrier until the reaper knows its group, and the lock is checked once more before the barrier
// opens.
func (o *runOptions) hold(c *cli.Invocation, lock *redlock.Lock, in cli.Signals) (status int, gone bool) {
	w := &supervisor{c: c, opts: o, lock: lock, in: in, tty: terminal.Open(c.Stdin), deadline: newDeadline(lock, o)}
	adopts := process.Adopt()
	var err error
	if w.child, err = process.Start(process.Command{
		Path: o.program, Words: o.command, Env: o.environment(c.Env, lock), Stdin: c.Stdin, Stdout: c.Stdout.File, Stderr: c.Stderr,
	}, w.tty.Lend); err != nil {
		c.Fail(err, "%v", err)
		return cli.ExitSystem, true
	}
	w.groups = w.child.Groups(adopts)
	defer w.tty.Reclaim(w.child.Group)
	reaper, err := process.StartReaper(w.child.Group, w.deadline.left)
	go w.child.Watch() // from here on: StartReaper waits for a reaper that does not answer
	if err != nil {
		w.child.Abandon()
		c.Fail(err, "%v", err)
		return cli.ExitSystem, true
	}
	w.stopReaper = sync.OnceFunc(reaper.Stop)
	defer w.stopReaper()
	if lock.Context().Err() != nil {
		w.child.Abandon()
		err := lock.Err()
		c.Fail(err, "%s was lost before the command began: %s", o.Name, why(err))
		return cli.ExitLost, true
	}
	in.Add(otherSignals)
	w.tty.StayAwake()
	w.child.Release()
	status = w.supervise()
	switch gone = w.killRemaining(); {
	case gone:
	case w.lost:
		c.Say("%s has left processes that can't be killed: they continue without the lock", o.command[0])
	default:
		c.Say("%s has left processes that can't be killed: the lock is not released, and expires by its TTL", o.command[0])
	}
	if w.lost {
		err := lock.Err()
		if gone {
			w.sayOverlap(err)
		}
		c.FailSilently(err, o.Name+" was lost while the command ran: "+why(err))
		return cli.ExitLost, gone
	}
	return status, gone
}

// supervise returns the command's status after its end.
func (sv *supervisor) supervise() int {
	lost := sv.lock.Context().Done()
	var tick <-chan struct{} // the deadline, once the lock is lost
	for {
		select {
		case ws, ok := <-sv.child.States:
			switch {
			case !ok: // another part of this process has waited for it
				sv.c.Fail(nil, "the exit status of %s is unknown", sv.opts.command[0])
				return cli.ExitSystem
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

// lockLost asks the command to end, once. The command has the grace for that, or what is left of the
// validity if that is less.
func (sv *supervisor) lockLost() {
	if sv.lost {
		return // killRemaining sees the end of the lock as well
	}
	sv.lost = true
	what := "is lost"
	if sv.lock.Remaining() > 0 {
		what = "can't be extended"
	}
	sv.deadline.markLost()
	left := sv.deadline.left()
	then := "is killed"
	if left > 0 {
		sv.mayEnd = true
		then = fmt.Sprintf("has %v to end", left.Round(time.Millisecond))
	}
	if left > 0 {
		sv.groups.End() // before the message, which may block
	}
	if !sv.c.JSON { // the object says it
		sv.c.Say("%s %s, and %s %s: %s", sv.opts.Name, what, sv.opts.command[0], then, why(sv.lock.Err()))
	}
}

// sayOverlap says, when the command has ended, for how long another client may have held the lock meanwhile: lockLost
// could say it only until then. It says nothing if the command was killed at once.
func (sv *supervisor) sayOverlap(err error) {
	var lost *redlock.LostError
	if sv.c.JSON || !sv.mayEnd || !errors.As(err, &lost) || lost.Overlap <= 0 {
		return
	}
	holder := ""
	if lost.Holder != nil {
		holder = ", and " + lost.Holder.Error()
	}
	sv.c.Say("%s has ended: another client may have held %s for up to %v until then%s",
		sv.opts.command[0], sv.opts.Name, lost.Overlap.Round(time.Millisecond), holder)
}

// why returns why a lock was lost, without its name.
func why(err error) string {
	var lost *redlock.LostError
	if errors.As(err, &lost) {
		return lost.Why()
	}
	return cli.WithoutPrefix(err)
}

// onTick kills the command if its time is over. It returns a channel that is closed when it must be
// called again.
func (sv *supervisor) onTick() <-chan struct{} {
	left := sv.deadline.left()
	if left <= 0 {
		sv.groups.Signal(syscall.SIGKILL)
	}
	again, _ := timer.After(sv.deadline.clock, process.Recheck(left))
	return again
}

// forward passes a signal on to the whole group of the command.
func (sv *supervisor) forward(s os.Signal) {
	if s == syscall.SIGCONT {
		sv.resumeJob()
		return
	}
	if s, ok := s.(syscall.Signal); ok {
		sv.groups.Signal(s)
		if slices.Contains(endSignals, s) {
			sv.groups.Signal(syscall.SIGCONT) // a process that is stopped handles a signal when it continues
		}
	}
}

// endSignals are those that ask a program to end.
var endSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// otherSignals are the signals, beside those that ask a program to end, that are forwarded to a running command.
var otherSignals = []syscall.Signal{
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT,
}
