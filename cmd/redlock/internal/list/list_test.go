package list

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/query"
	"github.com/quorumlock/go-redlock/internal/command"
)

func TestAHolderIsOnAQuorumOrMayBe(t *testing.T) {
	t.Parallel()
	const token, token2 = "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ben:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	answer := func(values ...string) (a query.Answer) {
		for _, v := range values {
			a.States = append(a.States, command.KeyState{Value: v, TTL: time.Minute})
		}
		return a
	}
	none, silent := answer("", ""), query.Answer{Err: errors.New("silent")}
	anna, ben := answer(token, "7"), answer(token2, "9")
	forever := query.Answer{States: []command.KeyState{{Value: token, TTL: -time.Millisecond}}}
	s := &search{group: &query.Group{Nodes: make([]command.Voter, 3)}}
	for _, c := range []struct {
		want listedName
		ok   bool
		all  []query.Answer
	}{
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute, fence: 7}, true, []query.Answer{anna, anna, none}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute, fence: 7}, true, []query.Answer{anna, answer(token, "8"), anna}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute}, true, []query.Answer{anna, answer(token, "x"), none}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: -time.Millisecond}, true, []query.Answer{forever, forever, anna}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute}, true, []query.Answer{forever, anna, none}},
		{listedName{held: true, owner: "ben", id: command.ID(token2), left: time.Minute, fence: 9}, true, []query.Answer{ben, ben, anna}},
		{listedName{owner: "ben", id: command.ID(token2)}, true, []query.Answer{ben, silent, none}},
		{listedName{owner: "ben", id: command.ID(token2)}, true, []query.Answer{ben, none}}, // the third was not asked
		{listedName{owner: "ben", id: command.ID(token2)}, false, []query.Answer{ben, none, none}},
		{listedName{}, false, []query.Answer{none, silent, silent}},
		{listedName{}, false, []query.Answer{answer("x"), answer("x"), answer("x")}},
	} {
		got, ok := s.evaluate("", c.all, 0)
		require.Equal(t, c.ok, ok, c.all)
		require.Equal(t, c.want, got, c.all)
	}
	for range 64 { // in any order of a map
		got, ok := s.evaluate("", []query.Answer{ben, anna, silent}, 0)
		require.True(t, ok)
		require.Equal(t, "anna", got.owner, "the smaller token of a tie")
	}
}
