//go:build unix && !aix && !solaris

package main

import (
	"syscall"
	"time"
)

// stopNotice is how long a stop may take to reach all threads of this process. Where
// no shell does job control the kernel drops it, and we go on after this time.
const stopNotice = 100 * time.Millisecond

// stopsJob reports whether a stop of the command is one by the terminal, which a
// shell has to learn of. A command that is stopped by SIGSTOP, or away from a terminal,
// keeps its lock meanwhile: who wakes it would not know to wake this process.
func (sv *supervisor) stopsJob(ws syscall.WaitStatus) bool {
	s := ws.StopSignal()
	return sv.tty != nil && (s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU)
}

// stopWithJob stops this process as the terminal has stopped the command, together
// with the rest of its own group, as if all had been one group. It returns when the
// shell goes on with the job.
func (sv *supervisor) stopWithJob() {
	sv.tty.takeBack(sv.child.group)
	sv.c.say("stopped: nothing extends %s now, which leaves it %v", sv.opts.name, (sv.deadline.left() - sv.opts.grace).Round(time.Second/10))
	// Not SIGTSTP, which the runtime swallows from its first Notify on, also after a
	// Reset; and not SIGSTOP, which would stop us also where nobody can go on with us.
	_ = syscall.Kill(0, syscall.SIGTTIN)
	deadline := time.After(stopNotice)
	for woken := false; !woken; {
		select {
		case s := <-sv.in:
			woken = s == syscall.SIGCONT
			if !woken {
				sv.forward(s)
			}
		case <-deadline: // by a clock that went on while we were stopped
			woken = true
		}
	}
	if sv.lock.Context().Err() == nil { // otherwise the command must not go on
		sv.resumeJob()
	}
}

// resumeJob lets a stopped command go on, in the foreground if this process is there.
func (sv *supervisor) resumeJob() {
	sv.tty.give(sv.child.group)
	sv.child.group.signal(syscall.SIGCONT)
}
