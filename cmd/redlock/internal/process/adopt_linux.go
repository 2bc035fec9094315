package process

import "golang.org/x/sys/unix"

// Adopt makes orphaned descendants of the command children of this process, if the kernel allows
// it. Child.Watch reaps them. The first process of a container may take seconds to reap a child, or
// never do it.
func Adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
