package main

import (
	"errors"
	"fmt"
	"os/exec"
)

// checkAge finds figures that were measured at a commit after which the code has changed. The
// findings are warnings, because measurements that take hours are not repeated for every commit.
func checkAge(pages []*page) (found []finding) {
	seen := make(map[string]string) // by commit
	for _, p := range pages {
		for _, c := range p.commits {
			since, known := seen[c.text]
			if !known {
				since = changedSince(c.text)
				seen[c.text] = since
			}
			if since != "" {
				found = append(found, finding{p.path, c.line, "measured at commit " + c.text + since})
			}
		}
	}
	return found
}

// changedSince returns "" if redlock, pool and internal/server have not changed since a commit.
func changedSince(commit string) string {
	err := exec.Command("git", "diff", "--quiet", commit, "HEAD", "--", "redlock", "pool", "internal/server").Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ended) && ended.ExitCode() == 1:
		return ": redlock, pool or internal/server has changed since"
	default:
		return fmt.Sprintf(": it can't be compared (%v)", err)
	}
}
