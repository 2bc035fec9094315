package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What other processes of this user can read of those that redlock starts.
func TestNoProcessThatRedlockStartsHasASecret(t *testing.T) {
	t.Parallel()
	all := masters(t)
	p := startIn(t, []string{"REDLOCK_NODES=" + secured(all, "app", password)}, "run", "job", "--", "sh", "-c", "echo go; read x")
	p.line()
	token, ok := all[0].Get("job")
	if !ok {
		token, _ = all[1].Get("job")
	}
	seen := 0
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "task", "*", "children"))
	require.NoError(t, err)
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			seen++
			for _, file := range []string{"environ", "cmdline"} {
				text, err := os.ReadFile(filepath.Join("/proc", pid, file))
				require.NoError(t, err)
				conceals(t, file, string(text), token)
			}
		}
	}
	require.Equal(t, 2, seen, "COMMAND and the reaper")
	p.say("")
	require.Equal(t, 0, p.status())
}
