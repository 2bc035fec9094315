package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Adopt makes orphaned descendants of the command children of this process, if the kernel allows
// it. Child.Watch reaps them. The first process of a container may take seconds to reap a child, or
// never do it.
//
// It is called before the command is started. It reports whether orphans of this session will be the command's: not if
// this process has children already, as a shell that has become redlock, because their orphans come to it as well.
func Adopt() (onlyTheCommands bool) {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil && len(children()) == 0
}

// strays returns the groups of orphans that have left the command's group, but not the session of this
// process. It returns none if the kernel does not list children.
func strays() (groups []Group) {
	own := unix.Getpgrp()
	for range 2 { // a list may lack a child while another one is reaped: proc_pid_task(5)
		for _, pid := range children() {
			group, err := unix.Getpgid(pid) // fails if it has been reaped
			// A signal to -1 reaches all processes, and one to -0 the own group: 0 stands for a group of another namespace.
			if err == nil && group > 1 && group != own && !slices.Contains(groups, Group(group)) {
				groups = append(groups, Group(group))
			}
		}
	}
	return groups
}

// children returns the children of all threads of this process that are in its session.
func children() (pids []int) {
	session, _ := unix.Getsid(0)
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(word)
			if sid, err := unix.Getsid(pid); err == nil && sid == session {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
