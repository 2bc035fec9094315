package status

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

func TestAStateIsFreeOnlyIfNoHolderCanHaveAQuorum(t *testing.T) {
	t.Parallel()
	none := redlock.NodeStatus{}
	anna := redlock.NodeStatus{Held: true, Owner: "anna"}
	ben := redlock.NodeStatus{Held: true, Owner: "ben"}
	silent := redlock.NodeStatus{Err: errors.New("silent")}
	for _, c := range []struct {
		want  state
		nodes []redlock.NodeStatus
	}{
		{free, []redlock.NodeStatus{none, none, none}},
		{free, []redlock.NodeStatus{none, none, silent}},
		{free, []redlock.NodeStatus{anna, none, none}},
		{free, []redlock.NodeStatus{anna, ben, none}},
		{free, []redlock.NodeStatus{anna, anna, none}}, // two tokens: the library would have said Held
		{unclear, []redlock.NodeStatus{anna, none, silent}},
		{unclear, []redlock.NodeStatus{anna, ben, silent}},
		{unclear, []redlock.NodeStatus{none, silent, silent}},
		{free, []redlock.NodeStatus{anna, ben, silent, none, none}},
		{unclear, []redlock.NodeStatus{anna, silent, silent, none, none}},
	} {
		require.Equal(t, c.want, stateOf(&redlock.Status{Nodes: c.nodes}), c.nodes)
	}
	require.Equal(t, held, stateOf(&redlock.Status{Held: true}))
}
