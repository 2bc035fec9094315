package process

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel gives the id of an empty group to another process, which may make it a group again.
func TestTheIdOfAGroupThatWasEmptyIsNotUsed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "read x; exec setsid sh -c 'echo ready; exec sleep 600'")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	groups := &Groups{own: Group(cmd.Process.Pid)} // it leads no group yet
	require.Empty(t, groups.Left())
	require.True(t, groups.OwnIsGone())
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	_, err = out.Read(make([]byte, 6))
	require.NoError(t, err)
	require.False(t, Group(cmd.Process.Pid).Empty(), "another process leads it")
	groups.End()
	groups.Signal(syscall.SIGTERM)
	require.True(t, groups.Kill())
	require.NoError(t, cmd.Process.Signal(syscall.Signal(0)))
	require.NoError(t, cmd.Process.Kill())
	require.EqualError(t, cmd.Wait(), "signal: killed")
}
