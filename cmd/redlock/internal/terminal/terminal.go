//go:build unix && !aix && !solaris

package terminal

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/process"
)

// Terminal is the terminal of standard input, if it controls this process's session. A nil terminal
// does nothing.
type Terminal struct {
	fd  int
	own int // this process's group
}

// Open returns the terminal that f is, or nil if it does not control this session.
func Open(f *os.File) *Terminal {
	fd := int(f.Fd())
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return nil
	}
	return &Terminal{fd: fd, own: syscall.Getpgrp()}
}

// ours reports whether this process is in the foreground. A job that was started with & is not, and
// must not take the terminal from the shell.
func (t *Terminal) ours() bool {
	if t == nil {
		return false
	}
	g, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && g == t.own
}

// Lend makes the kernel put a child's group in the foreground before the child begins.
func (t *Terminal) Lend(attr *syscall.SysProcAttr) {
	if t.ours() {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// Give puts a group in the foreground.
func (t *Terminal) Give(g process.Group) {
	if t.ours() {
		t.set(int(g))
	}
}

// Reclaim puts this process's group in the foreground again, if g has it.
func (t *Terminal) Reclaim(g process.Group) {
	if t == nil {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && now == int(g) {
		t.set(t.own)
	}
}

// StayAwake keeps SIGTTOU from stopping this process when it uses the terminal from the background:
// when it writes a message after `stty tostop`, and when it takes the foreground. Package signal
// cannot restore the default, so a process that would inherit this must be started before.
func (t *Terminal) StayAwake() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

func (t *Terminal) set(pgrp int) {
	t.StayAwake()
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// WindowSize returns the size of a terminal. ok is false if it is unknown or less than 2 by 2.
func WindowSize(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < 2 || size.Row < 2 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
