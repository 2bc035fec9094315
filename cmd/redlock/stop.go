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
func (w *watch) stopsJob(ws syscall.WaitStatus) bool {
	s := ws.StopSignal()
	return w.tty != nil && (s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU)
}

// stopWithJob stops this process as the terminal has stopped the command, together
// with the rest of its own group, as if all had been one group. It returns when the
// shell goes on with the job.
func (w *watch) stopWithJob() {
	w.tty.takeBack(w.child.group)
	w.c.say("stopped: nothing extends %s now, which leaves it %v", w.p.name, (w.leash.left() - w.p.grace).Round(time.Second/10))
	// Not SIGTSTP, which the runtime swallows from its first Notify on, also after a
	// Reset; and not SIGSTOP, which would stop us also where nobody can go on with us.
	_ = syscall.Kill(0, syscall.SIGTTIN)
	deadline := time.After(stopNotice)
	for woken := false; !woken; {
		select {
		case s := <-w.in:
			woken = s == syscall.SIGCONT
			if !woken {
				w.forward(s)
			}
		case <-deadline: // by a clock that went on while we were stopped
			woken = true
		}
	}
	if w.lock.Context().Err() == nil { // otherwise the command must not go on
		w.goOn()
	}
}

// goOn lets a stopped command go on, in the foreground if this process is there.
func (w *watch) goOn() {
	w.tty.give(w.child.group)
	w.child.group.signal(syscall.SIGCONT)
}
