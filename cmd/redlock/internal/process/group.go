//go:build unix && !aix && !solaris

package process

import (
	"errors"
	"syscall"
)

// Group is a process group. Its value is the id of the process that leads or led it: the kernel
// does not reuse the id as long as the group has a member.
type Group int

// Signal sends a signal to all members.
func (g Group) Signal(s syscall.Signal) { _ = syscall.Kill(-int(g), s) }

// Empty reports whether the group has no member left. A zombie is a member until its parent has
// waited for it.
func (g Group) Empty() bool {
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

// End asks all members to end. SIGCONT follows SIGTERM, because a stopped member handles SIGTERM
// only when it continues.
func (g Group) End() {
	g.Signal(syscall.SIGTERM)
	g.Signal(syscall.SIGCONT)
}
