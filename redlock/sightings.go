package redlock

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// sighting is the token that a node holds, and since when it was seen there. Contenders with a
// split vote delete their keys within the node timeout and return with new tokens. A token that
// remains for longer belongs to a holder or to a crashed client.
type sighting struct {
	token string
	since clock.Instant
}

// blockedFor reports whether contenders are stuck: none can have a quorum until an unchanged
// key expires or a failed node votes again. free is how soon that can be without a release;
// negative if unknown. An attempt before that is useless. blocked is how long the same keys have
// left no quorum. votes are the attempt's; s is what the query found.
func (w *request) blockedFor(l *Locker, votes []Vote, s vote.Results) (free time.Duration, stuck bool, blocked time.Duration) {
	now, longest := l.now(), l.readTimeout()
	if w.sightings == nil {
		w.sightings = make([]sighting, len(votes))
	}
	var inTheWay, ages []time.Duration
	for i, states := range s.KeyStates {
		seen := &w.sightings[i]
		token, left := firstHolder(states)
		if token != "" && token == seen.token {
			ages = append(ages, now.Sub(seen.since))
		}
		switch {
		case votes[i].Outcome == OutcomeFailed:
			inTheWay = append(inTheWay, quarantineLeft(votes[i].Err))
		case token != seen.token && len(states) > 0:
			*seen = sighting{token, now}
		case token != "" && now.Sub(seen.since) > longest:
			inTheWay = append(inTheWay, left)
		}
	}
	spare := len(votes) - s.Need
	if len(ages) > spare {
		slices.Sort(ages)
		blocked = ages[len(ages)-1-spare]
	}
	over := len(inTheWay) - spare
	if over <= 0 {
		return 0, false, blocked
	}
	slices.Sort(inTheWay)
	if free = inTheWay[over-1]; free == waiting.NoExpiry {
		free = -1
	}
	return free, true, blocked
}

// firstHolder returns the first token that blocks a node, and its remaining time.
func firstHolder(holds []command.KeyState) (token string, left time.Duration) {
	for _, h := range holds {
		switch {
		case h.Free():
		case h.TTL < 0:
			return cmp.Or(h.Value, h.ForeignType), waiting.NoExpiry
		default:
			return cmp.Or(h.Value, h.ForeignType), h.TTL
		}
	}
	return "", 0
}

// quarantineLeft returns how much longer a failed node does not vote; waiting.NoExpiry if unknown.
func quarantineLeft(err error) time.Duration {
	var q *QuarantineError
	if errors.As(err, &q) && q.Remaining > 0 {
		return q.Remaining + quarantineSlack
	}
	return waiting.NoExpiry
}
