package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H34: the first name stays until its last connection has ended.
func TestAServerVotesUnderOneNameAtATime(t *testing.T) {
	f := command.NewNodeSet(false)
	require.NoError(t, f.Join("run", "a"))
	require.NoError(t, f.Join("run", "a"), "another connection of the same node")
	require.NoError(t, f.Join("other", "b"))
	err := f.Join("run", "b")
	require.ErrorIs(t, err, command.ErrUnfit)
	require.ErrorContains(t, err, "a and b are the same server (run_id run…)")

	f.Leave("run", "b") // it has not joined
	f.Leave("none", "a")
	f.Leave("run", "a")
	require.Error(t, f.Join("run", "b"))
	f.Leave("run", "a")
	require.NoError(t, f.Join("run", "b"))
	require.Error(t, f.Join("run", "a"))
}

func TestANodeSetExemptsTheNodesThatItNames(t *testing.T) {
	var none *command.NodeSet
	require.False(t, none.Exempts("a"))
	require.False(t, command.NewNodeSet(false).Exempts("a"))
	require.True(t, command.NewNodeSet(true).Exempts("a"))
	some := command.NewNodeSet(false, "a", "c")
	require.True(t, some.Exempts("a"))
	require.False(t, some.Exempts("b"))
}
