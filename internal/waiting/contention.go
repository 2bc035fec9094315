package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// TokensHolding maps the tokens that hold a name to the remaining times on each node.
func TokensHolding(s vote.Results, name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for _, h := range s.KeyStates {
		if len(h) > name && !h[name].Free() {
			held[h[name].Value] = append(held[h[name].Value], h[name].TTL)
		}
	}
	return held
}

// ContentionOf finds the name that one token holds on a quorum for the longest. freeIn is the time
// until that quorum expires, unless it is extended.
func ContentionOf(s vote.Results, names int) Contention {
	var c Contention
	var tokens strings.Builder
	for name := range names {
		for token, left := range TokensHolding(s, name) {
			c.Foreign = c.Foreign || token != "" && !command.WellFormed(token)
			if len(left) < s.Need {
				continue
			}
			_, _ = fmt.Fprintln(&tokens, name, token)
			slices.Sort(left)
			// The name is free when fewer than a quorum are left.
			if d := left[len(left)-s.Need]; !c.Held || command.Outlasts(d, c.FreeIn) {
				c.Held, c.FreeIn = true, d
			}
		}
	}
	c.Tokens = tokens.String()
	return c
}

// Sightings records, by node and name, the token of the key, and since when it was seen there.
// Contenders with a split vote delete their keys within the node timeout and return with new tokens.
// A token that remains for longer belongs to a holder or to a crashed client. The zero value is empty.
type Sightings [][]sighting

type sighting struct {
	token string
	since clock.Instant
}

// BlockedFor reports whether contenders are stuck: none can have a quorum until unchanged keys
// expire or a failed node votes again. free is how soon that can be without a release; negative if
// unknown. An attempt before that is useless. blocked is how long the same keys have left no quorum.
//
// s is what was seen at now, and longest how long a contender with a split vote may keep its keys.
// outage reports whether a node failed in the last attempt, and how much longer it will not vote.
func (all *Sightings) BlockedFor(
	now clock.Instant, longest time.Duration, s vote.Results, outage func(node int) (left time.Duration, failed bool),
) (free time.Duration, stuck bool, blocked time.Duration) {
	if *all == nil {
		*all = make(Sightings, len(s.Ballots))
	}
	var inTheWay, ages []time.Duration
	for i, keys := range s.KeyStates {
		age, left := all.see(i, now, longest, keys)
		ages = append(ages, age)
		switch outageLeft, failed := outage(i); {
		case failed:
			inTheWay = append(inTheWay, outageLeft)
		case age > longest:
			inTheWay = append(inTheWay, left)
		}
	}
	spare := len(s.Ballots) - s.Need
	if len(ages) > spare {
		slices.Sort(ages)
		blocked = ages[len(ages)-1-spare]
	}
	over := len(inTheWay) - spare
	if over <= 0 {
		return 0, false, blocked
	}
	slices.Sort(inTheWay)
	if free = inTheWay[over-1]; free == NoExpiry {
		free = -1
	}
	return free, true, blocked
}

// see records the keys of one node. It returns how long the oldest of them has been there, and how
// much longer those remain that are older than longest.
func (all Sightings) see(node int, now clock.Instant, longest time.Duration, keys []command.KeyState) (age, left time.Duration) {
	if len(all[node]) < len(keys) {
		all[node] = make([]sighting, len(keys))
	}
	for name, k := range keys {
		seen, token := &all[node][name], cmp.Or(k.Value, k.ForeignType)
		if token != seen.token {
			*seen = sighting{token, now}
		}
		if token == "" {
			continue
		}
		old := now.Sub(seen.since)
		age = max(age, old)
		switch {
		case old <= longest:
		case k.TTL < 0:
			left = NoExpiry
		default:
			left = max(left, k.TTL)
		}
	}
	return age, left
}
