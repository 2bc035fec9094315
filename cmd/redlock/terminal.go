//go:build unix && !aix && !solaris

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that standard input is, and that controls this process's
// session. A nil one is none.
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

// ours reports whether this process is in the foreground. A job started with & is
// not, and takes nothing away from the shell.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	g, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && g == t.own
}

// lend has a child's group put in the foreground before the child begins.
func (t *terminal) lend(attr *syscall.SysProcAttr) {
	if t.ours() {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// give puts a group in the foreground.
func (t *terminal) give(g group) {
	if t.ours() {
		t.set(int(g))
	}
}

// takeBack puts this process's group in the foreground again, if g has it.
func (t *terminal) takeBack(g group) {
	if t == nil {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && now == int(g) {
		t.set(t.own)
	}
}

// stayAwake keeps this process from being stopped by SIGTTOU for what it does to the
// terminal from the background: writing a message, where `stty tostop` was said, and
// taking the foreground. The runtime has no way back, so that whoever would inherit
// it must have been started before.
func (t *terminal) stayAwake() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

func (t *terminal) set(pgrp int) {
	t.stayAwake()
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
}

// isTerminal reports whether a person sees what is written to f.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// windowSize is that of a terminal, where it tells; at least 2 by 2.
func windowSize(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < 2 || size.Row < 2 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
