package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Adopt makes orphaned descendants of the command children of this process, if the kernel allows
// it. Child.Watch reaps them. The first process of a container may take seconds to reap a child, or
// never do it.
func Adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Strays returns the groups of orphans that have left the command's group, but not the session of this
// process, as `timeout` and the jobs of an interactive shell do. It returns none if the kernel does not
// list children.
func Strays() (groups []Group) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	session, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			var pid int
			if _, err := fmt.Sscan(word, &pid); err != nil {
				continue
			}
			sid, _ := unix.Getsid(pid) // 0 for one that has ended meanwhile
			group, _ := unix.Getpgid(pid)
			if g := Group(group); sid == session && group > 1 && group != unix.Getpgrp() && !slices.Contains(groups, g) {
				groups = append(groups, g)
			}
		}
	}
	return groups
}
