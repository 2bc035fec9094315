package redlock

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// sighting is what a node holds, and since when it was seen there. Contenders who split the
// votes give them back within the node timeout, and come with other tokens: what outlives
// that belongs to a holder, or to one that died.
type sighting struct {
	token string
	since clock.Instant
}

// noExpiry is for how long a node is in the way of which nobody knows.
const noExpiry time.Duration = math.MaxInt64

// blockedForLocked reports whether no contender can have a quorum until a key goes that stays where it
// is, or a node votes again that does not, and how soon that can be without a release;
// negative: nobody knows. No attempt is of use before. Blocked is for how long the same keys have left
// no quorum. Called under the look's mu.
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
		case k.votes[i].Outcome == wire.Failed:
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

// firstHolder is the first token that stands in the way on a node, and for how long.
func firstHolder(holds []wire.KeyState) (token string, left time.Duration) {
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

// quarantineLeft is for how long a node that failed does not vote, as far as it is known.
func quarantineLeft(err error) time.Duration {
	var q *QuarantineError
	if errors.As(err, &q) && q.Remaining > 0 {
		return q.Remaining + quarantineSlack
	}
	return noExpiry
}
