package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H34: the first name stays until its last connection has ended.
func TestAServerVotesUnderOneNameAtATime(t *testing.T) {
	s := command.NewServers()
	require.NoError(t, s.Join("run", "a"))
	require.NoError(t, s.Join("run", "a"), "another connection of the same node")
	require.NoError(t, s.Join("other", "b"))
	err := s.Join("run", "b")
	require.ErrorIs(t, err, command.ErrUnfit)
	require.ErrorContains(t, err, "a and b are the same server (run_id run…)")

	s.Leave("run")
	require.Error(t, s.Join("run", "b"))
	s.Leave("run")
	require.NoError(t, s.Join("run", "b"))
	require.Error(t, s.Join("run", "a"))
}
