package main

import (
	"fmt"
	"os"
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
	children := childrenOf(t, p.cmd.Process.Pid)
	require.Len(t, children, 2, "COMMAND and the reaper")
	for _, pid := range children {
		for _, file := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			require.NoError(t, err)
			conceals(t, file, string(text), token)
		}
	}
	p.say("")
	require.Equal(t, 0, p.status())
}
