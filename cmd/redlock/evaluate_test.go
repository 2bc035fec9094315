package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestAHolderIsOnAQuorumOrMayBe(t *testing.T) {
	t.Parallel()
	const token, token2 = "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ben:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	answer := func(values ...string) (a keyAnswer) {
		for _, v := range values {
			a.states = append(a.states, command.KeyState{Value: v, TTL: time.Minute})
		}
		return a
	}
	none, silent := answer("", ""), keyAnswer{err: errors.New("silent")}
	anna, ben := answer(token, "7"), answer(token2, "9")
	forever := keyAnswer{states: []command.KeyState{{Value: token, TTL: -time.Millisecond}}}
	s := &search{group: &nodeGroup{nodes: make([]command.Voter, 3)}}
	for _, c := range []struct {
		want listedName
		ok   bool
		all  []keyAnswer
	}{
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute, fence: 7}, true, []keyAnswer{anna, anna, none}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute, fence: 7}, true, []keyAnswer{anna, answer(token, "8"), anna}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute}, true, []keyAnswer{anna, answer(token, "x"), none}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: -time.Millisecond}, true, []keyAnswer{forever, forever, anna}},
		{listedName{held: true, owner: "anna", id: command.ID(token), left: time.Minute}, true, []keyAnswer{forever, anna, none}},
		{listedName{held: true, owner: "ben", id: command.ID(token2), left: time.Minute, fence: 9}, true, []keyAnswer{ben, ben, anna}},
		{listedName{owner: "ben", id: command.ID(token2)}, true, []keyAnswer{ben, silent, none}},
		{listedName{owner: "ben", id: command.ID(token2)}, true, []keyAnswer{ben, none}}, // the third was not asked
		{listedName{owner: "ben", id: command.ID(token2)}, false, []keyAnswer{ben, none, none}},
		{listedName{}, false, []keyAnswer{none, silent, silent}},
		{listedName{}, false, []keyAnswer{answer("x"), answer("x"), answer("x")}},
	} {
		got, ok := s.evaluate("", c.all, 0)
		require.Equal(t, c.ok, ok, c.all)
		require.Equal(t, c.want, got, c.all)
	}
}
