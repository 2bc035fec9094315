//go:build unix && !aix && !solaris

package run

import (
	"syscall"
	"time"
)

// stopNotice is how long a stop may take to reach all threads of this process. Without a shell
// that does job control the kernel drops the stop, and redlock continues after this time.
// On a busy machine a stop takes long. If it came later than this, the command would read in the background, and stop
// once more.
const stopNotice = time.Second

// stopsJob reports whether the terminal stopped the command, which the shell has to learn. A
// command that is stopped by SIGSTOP, or without a terminal, keeps its lock: the process that
// continues it would not know that it has to continue redlock as well.
func (sv *supervisor) stopsJob(ws syscall.WaitStatus) bool {
	s := ws.StopSignal()
	return sv.tty != nil && (s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU)
}

// stopWithJob stops this process and the rest of its group, as the terminal has stopped the
// command. It returns when the shell continues the job.
//
// The terminal is taken back first, and the message is written before the stop: afterwards
// nothing runs here until SIGCONT. The lock is checked after the wake-up, because its validity
// may have ended during the stop.
func (sv *supervisor) stopWithJob() {
	sv.tty.Reclaim(sv.child.Group)
	sv.c.Say("stopped: nothing extends %s now, which leaves it %v", sv.opts.Name, (sv.deadline.left() - sv.opts.grace).Round(time.Second/10))
	// Not SIGTSTP: the runtime swallows it from its first Notify on, also after a Reset. Not
	// SIGSTOP: it would stop redlock even if no shell could continue it.
	_ = syscall.Kill(0, syscall.SIGTTIN)
	deadline := time.After(stopNotice)
	for woken := false; !woken; {
		select {
		case s := <-sv.in:
			woken = s == syscall.SIGCONT
			if !woken {
				sv.forward(s)
			}
		case <-deadline: // its clock continues while the process is stopped
			woken = true
		}
	}
	if sv.lock.Context().Err() == nil { // otherwise the command must not continue
		sv.resumeJob()
	}
}

// resumeJob continues a stopped command. The terminal is given before SIGCONT, so that the
// command does not stop again at its first read.
func (sv *supervisor) resumeJob() {
	sv.tty.Give(sv.child.Group)
	sv.groups.Signal(syscall.SIGCONT)
}
