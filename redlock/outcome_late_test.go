package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// A late answer is as good as one in time, but a grant: that neither wins nor supplies a fence, and an error does not
// show it as a vote. Late is after the end of the vote, or after an error of an undo, which the node sends again.
func TestWhatALateAnswerShows(t *testing.T) {
	answers := []struct {
		reply        command.Reply
		inTime, late string
	}{
		{
			command.Reply{Outcome: command.Granted, Fence: 7},
			"granted, won, fence, free, confirmed",
			"unknown (no answer within the node timeout), free, confirmed",
		},
		{command.Reply{Outcome: command.Refused}, "refused, gone, confirmed, empty", ""},
		{command.Reply{Outcome: command.Refused, NotSent: true}, "refused, gone, free, confirmed, empty", ""},
		{command.Reply{Outcome: command.Failed, NotSent: true, Err: errSome}, "failed (some trouble), empty, failed", ""},
		{command.Reply{Outcome: command.Failed, Err: errSome}, "failed (some trouble), failed", ""},
		{command.Reply{Err: errSome}, "unknown (some trouble), failed", ""},
		{command.Reply{Undone: true, Err: errSome}, "unknown (some trouble), confirmed, failed", ""},
	}
	for when, first := range map[string]func(c *command.Command){
		"in time":           func(*command.Command) {},
		"after the timeout": func(*command.Command) { pass(time.Second) },
		"after an error":    func(c *command.Command) { c.Answer(command.Reply{Err: errSome, Retrying: true}) },
	} {
		for _, a := range answers {
			synctest.Test(t, func(t *testing.T) {
				l, err := newOver([]command.Voter{&mute{name: "a"}}, WithClock(clock.Runtime()))
				require.NoError(t, err)
				g, nodes := muteGroup(l, 1)
				r, sent := muteRound(g, &counting{}), nodes[0].command
				first(sent)
				again := &command.Command{Request: sent.Request, To: sent.To}
				again.Answer(a.reply)
				want := a.inTime
				if when != "in time" && a.late != "" {
					want = a.late
				}
				require.Equal(t, want, shown(r), when)
			})
		}
	}
}

// shown returns the vote of the only node of a round, as an error shows it, and what else is true of the round.
func shown(r *vote.Round) string {
	v := votesError(r, nil).Votes[0]
	s := v.Outcome.String()
	if v.Err != nil {
		s += " (" + v.Err.Error() + ")"
	}
	add := func(what string, is bool) {
		if is {
			s += ", " + what
		}
	}
	empty, _ := r.EmptyNodes()
	r.View(func(b *vote.Ballots) {
		add("won", r.Won())
		add("fence", b.AppendFences(nil)[0] != 0)
		add("gone", b.RefusedByQuorum())
		add("free", b.SurelyFree())
		add("confirmed", b.Confirmed())
		add("empty", empty.Has(0))
		add("failed", b.ByNode[0].Failed())
	})
	return s
}
