//go:build unix && !aix && !solaris

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
)

// terminal is the terminal of standard input, if it controls this process's session. A nil terminal
// does nothing.
type terminal struct {
	fd  int
	own int // this process's group
}

func openTerminal(f *os.File) *terminal {
	fd := int(f.Fd())
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return nil
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}
}

// ours reports whether this process is in the foreground. A job that was started with & is not, and
// must not take the terminal from the shell.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	g, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && g == t.own
}

// lend makes the kernel put a child's group in the foreground before the child begins.
func (t *terminal) lend(attr *syscall.SysProcAttr) {
	if t.ours() {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// give puts a group in the foreground.
func (t *terminal) give(g process.Group) {
	if t.ours() {
		t.set(int(g))
	}
}

// reclaim puts this process's group in the foreground again, if g has it.
func (t *terminal) reclaim(g process.Group) {
	if t == nil {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && now == int(g) {
		t.set(t.own)
	}
}

// stayAwake keeps SIGTTOU from stopping this process when it uses the terminal from the background:
// when it writes a message after `stty tostop`, and when it takes the foreground. Package signal
// cannot restore the default, so a process that would inherit this must be started before.
func (t *terminal) stayAwake() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

func (t *terminal) set(pgrp int) {
	t.stayAwake()
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// windowSize returns the size of a terminal. ok is false if it is unknown or less than 2 by 2.
func windowSize(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < 2 || size.Row < 2 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
