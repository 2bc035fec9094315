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

// stay is what a node holds, and since when it was seen there. Contenders who split the
// votes give them back within the node timeout, and come with other tokens: what outlives
// that belongs to a holder, or to one that died.
type stay struct {
	token string
	since clock.Instant
}

// unknown is for how long a node is in the way of which nobody knows.
const unknown time.Duration = math.MaxInt64

// stuck reports whether no contender can have a quorum until a key goes that stays where it
// is, or a node votes again that does not, and how soon that can be without a release;
// negative: nobody knows. No attempt is of use before. Called under the look's mu.
func (v *waiter) stuck(k *look) (free time.Duration, stuck bool) {
	now, longest := k.l.now(), k.l.readTimeout()
	if v.stays == nil {
		v.stays = make([]stay, len(k.ballots))
	}
	var inTheWay []time.Duration
	for i := range k.ballots {
		s, holds := &v.stays[i], k.holds[i]
		token, left := firstHeld(holds)
		switch {
		case k.votes[i].Outcome == wire.Failed:
			inTheWay = append(inTheWay, quarantineLeft(&k.votes[i]))
		case token != s.token && len(holds) > 0:
			*s = stay{token, now}
		case token != "" && now.Sub(s.since) > longest:
			inTheWay = append(inTheWay, left)
		}
	}
	over := len(inTheWay) - (len(k.ballots) - k.tally.Need())
	if over <= 0 {
		return 0, false
	}
	slices.Sort(inTheWay)
	if free = inTheWay[over-1]; free == unknown {
		free = -1
	}
	return free, true
}

// firstHeld is the first token that stands in the way on a node, and for how long.
func firstHeld(holds []wire.Hold) (token string, left time.Duration) {
	for _, h := range holds {
		switch {
		case h.Free():
		case h.TTL < 0:
			return cmp.Or(h.Value, h.Foreign), unknown
		default:
			return cmp.Or(h.Value, h.Foreign), h.TTL
		}
	}
	return "", 0
}

// quarantineLeft is for how long a node that failed does not vote, as far as it is known.
func quarantineLeft(v *Vote) time.Duration {
	var q *QuarantineError
	if errors.As(v.Err, &q) && q.Left > 0 {
		return q.Left + quarantineMargin
	}
	return unknown
}
