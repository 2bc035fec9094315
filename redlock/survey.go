package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// survey asks the nodes what they have of a lock. The answers count as votes: under the restart guard only nodes that
// vote answer. A node grants if it supports the lock for as long as is asked. A quorum of grants decides at once.
// Otherwise the round waits for the other nodes: one that keeps the keys for a shorter time may answer first.
type survey struct {
	*vote.Round
	hold     *hold
	supports func(keys []command.KeyState) bool // may be called by several goroutines
}

func newSurvey(h *hold) *survey {
	s := &survey{hold: h}
	s.Round = h.l.readRound(&surveyEvents, s, h.holder.Names, &h.args)
	s.Rule = vote.LossAfterAll
	return s
}

// surveyEvents are the events of its round; the owner is the survey.
var surveyEvents = vote.Events{OnReply: func(r *vote.Round, _ int, rep command.Reply) command.Reply {
	if rep.Outcome == command.Granted && !r.Owner.(*survey).supports(rep.KeyStates) {
		rep.Outcome = command.Refused
	}
	return rep
}}

// run sends the round, and waits for its decision or until ctx ends.
func (s *survey) run(ctx context.Context) error {
	s.hold.l.group.NoteBegan(s.Round)
	return s.hold.l.runRound(ctx, s.Round, s.hold.l.set.timeout(s.hold.opts.ttl))
}

// until evaluates the answers of all nodes: until when a quorum surely keeps the keys, if one has the token, and whether
// so many do not have it that none can. A node keeps them for the time that is left, counted from before the request was
// sent, and less 1 ms because PTTL is truncated to milliseconds.
func (s *survey) until() (until clock.Instant, kept, gone bool) {
	var ours []clock.Instant
	others := 0
	s.View(func(b *vote.Ballots) {
		for _, keys := range b.KeyStates {
			if keys == nil {
				continue // no answer, or a failure
			}
			if bound, ok := s.hold.supported(s.Start, keys); ok {
				ours = append(ours, bound.Add(-time.Millisecond))
			} else {
				others++
			}
		}
	})
	nodes := len(s.hold.l.nodes)
	until, kept = quorum.Supported(ours, quorum.Majority(nodes))
	return until, kept, quorum.Blocks(nodes, others)
}

// votes returns the answers as votes on whether the token holds the names, and not on for how long.
func (s *survey) votes() []Vote {
	votes := votesError(s.Round, nil).Votes
	s.View(func(b *vote.Ballots) {
		for i, keys := range b.KeyStates {
			if keys == nil {
				continue // no answer, or a failure
			}
			votes[i].Outcome, votes[i].Err = OutcomeGranted, nil
			if _, ours := s.hold.supported(s.Start, keys); !ours {
				others := slices.DeleteFunc(slices.Clone(keys), func(k command.KeyState) bool { return k.Value == s.hold.args.Token() })
				votes[i].Outcome, votes[i].Err = OutcomeRefused, asHeldError(others)
			}
		}
	})
	return votes
}

// longest returns the longest time to live that a node reported. An earlier handle may have extended the keys for longer
// than the TTL of its claim.
func (s *survey) longest() (d time.Duration) {
	s.View(func(b *vote.Ballots) {
		for _, keys := range b.KeyStates {
			for _, k := range keys {
				d = max(d, min(k.TTL, s.hold.l.set.maxTTL))
			}
		}
	})
	return d
}

// resume queries the nodes and starts the hold if a quorum still keeps the keys.
func resume(ctx context.Context, h *hold) error {
	s := newSurvey(h)
	s.supports = func(keys []command.KeyState) bool {
		until, ours := h.supported(s.Start, keys)
		return ours && h.lease.Terms.Suffices(until.Sub(h.l.now())-time.Millisecond)
	}
	h.holder.Began = s.Start
	if err := s.run(ctx); err != nil {
		return withOp("resume", err)
	}
	until, kept, gone := s.until()
	now := h.l.now()
	switch {
	case gone:
		return withOp("resume", votesError(s.Round, ErrLost))
	case !kept && h.l.isClosed():
		return closedError(h.holder.Names)
	case !kept:
		return withOp("resume", faultError(s.Round))
	case !h.lease.Terms.Suffices(until.Sub(now)):
		return withOp("resume", votesError(s.Round, ErrTooLate))
	}
	h.mu.Lock()
	h.keys.longest = max(h.keys.longest, s.longest())
	h.mu.Unlock()
	h.l.group.NoteDecided(s.Round, until, 0)
	h.l.waiting.Acquired(&h.holder, nil)
	h.markHeld(until, now)
	return nil
}

// quorumHolder returns the token that a quorum of the nodes has under a name, if there is one, and how long a
// quorum keeps it. That is negative, as nodes report it, if it never expires.
func quorumHolder(res *vote.Ballots, name int) (token string, kept time.Duration) {
	for token, left := range verdict.TokensHolding(res.KeyStates, name) {
		for i := range left {
			if left[i] < 0 {
				left[i] = verdict.NoExpiry
			}
		}
		kept, ok := quorum.Supported(left, res.Need())
		if !ok || token == "" {
			continue
		}
		if kept == verdict.NoExpiry {
			kept = -time.Millisecond
		}
		return token, kept
	}
	return "", 0
}
