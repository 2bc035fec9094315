package redlock

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// sighting is the token that a node holds, and since when it was seen there. Contenders with a
// split vote delete their keys within the node timeout and return with new tokens. A token that
// remains for longer belongs to a holder or to a crashed client.
type sighting struct {
	token string
	since clock.Instant
}

// noExpiry is the remaining time of a key that never expires, or of an outage of unknown duration.
const noExpiry time.Duration = math.MaxInt64

// blockedForLocked reports whether contenders are stuck: none can have a quorum until an unchanged
// key expires or a failed node votes again. free is how soon that can be without a release;
// negative if unknown. An attempt before that is useless. blocked is how long the same keys have
// left no quorum. The caller holds the query's mu.
func (v *waiter) blockedForLocked(k *holderQuery) (free time.Duration, stuck bool, blocked time.Duration) {
	now, longest := k.l.now(), k.l.readTimeout()
	if v.sightings == nil {
		v.sightings = make([]sighting, len(k.ballots))
	}
	var inTheWay, ages []time.Duration
	for i := range k.ballots {
		s, holds := &v.sightings[i], k.keyStates[i]
		token, left := firstHolder(holds)
		if token != "" && token == s.token {
			ages = append(ages, now.Sub(s.since))
		}
		switch {
		case k.votes[i].Outcome == OutcomeFailed:
			inTheWay = append(inTheWay, quarantineLeft(k.votes[i].Err))
		case token != s.token && len(holds) > 0:
			*s = sighting{token, now}
		case token != "" && now.Sub(s.since) > longest:
			inTheWay = append(inTheWay, left)
		}
	}
	spare := len(k.ballots) - k.tally.Need()
	if len(ages) > spare {
		slices.Sort(ages)
		blocked = ages[len(ages)-1-spare]
	}
	over := len(inTheWay) - spare
	if over <= 0 {
		return 0, false, blocked
	}
	slices.Sort(inTheWay)
	if free = inTheWay[over-1]; free == noExpiry {
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
			return cmp.Or(h.Value, h.ForeignType), noExpiry
		default:
			return cmp.Or(h.Value, h.ForeignType), h.TTL
		}
	}
	return "", 0
}

// quarantineLeft returns how much longer a failed node does not vote; noExpiry if unknown.
func quarantineLeft(err error) time.Duration {
	var q *QuarantineError
	if errors.As(err, &q) && q.Remaining > 0 {
		return q.Remaining + quarantineSlack
	}
	return noExpiry
}
