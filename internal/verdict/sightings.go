package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Sightings records, by node and name, the token of the key, and since when it was seen there.
// Contenders with a split vote delete their keys within the node timeout and return with new tokens.
// A token that remains for longer belongs to a holder or to a crashed client. The zero value is empty.
type Sightings [][]sighting

type sighting struct {
	token string
	since clock.Instant
}

// Explain returns why an attempt failed, and what to wait for. f was found at now. longest is how long a contender
// with a split vote may keep its keys.
func (seen *Sightings) Explain(now clock.Instant, longest time.Duration, f Failure) Contention {
	c := holderOf(f)
	blocked := c.Stuck || f.Foreign
	if !c.Stuck {
		c.FreeIn, c.Stuck, c.Blocked, c.Oldest = seen.blockedFor(now, longest, f)
	}
	c.Why = Lost(len(f.Keys), f.Refused, f.Failed, blocked || c.Blocked > longest)
	return c
}

// holderOf finds the name that one token holds on a quorum for the longest. FreeIn is the time
// until that quorum expires, unless it is extended.
func holderOf(f Failure) (c Contention) {
	for name := range f.Names {
		for token, left := range TokensHolding(f.Keys, name) {
			c.Foreign = c.Foreign || token != "" && !command.WellFormed(token)
			if len(left) < f.Need {
				continue
			}
			if c.Tokens == nil {
				c.Tokens = make([]string, f.Names)
			}
			c.Tokens[name] = token
			slices.Sort(left)
			// The name is free when fewer than a quorum are left.
			if d := left[len(left)-f.Need]; !c.Stuck || command.Outlasts(d, c.FreeIn) {
				c.Stuck, c.FreeIn = true, d
			}
		}
	}
	return c
}

// blockedFor reports whether contenders are stuck: none can have a quorum until unchanged keys
// expire or a failed node votes again. free is how soon that can be without a release; negative if
// unknown. An attempt before that is useless. blocked is how long the same keys have left no quorum, and oldest how long one of them has
// been there.
func (seen *Sightings) blockedFor(now clock.Instant, longest time.Duration, f Failure) (free time.Duration, stuck bool, blocked, oldest time.Duration) {
	if *seen == nil {
		*seen = make(Sightings, len(f.Keys))
	}
	var inTheWay, ages []time.Duration
	for i, keys := range f.Keys {
		age, left := seen.see(i, now, longest, keys)
		ages = append(ages, age)
		switch out := f.Outages[i]; {
		case out.Failed:
			inTheWay = append(inTheWay, out.Left)
		case age > longest:
			inTheWay = append(inTheWay, left)
		}
	}
	spare := len(f.Keys) - f.Need
	slices.Sort(ages)
	blocked, oldest = ages[len(ages)-1-spare], ages[len(ages)-1]
	over := len(inTheWay) - spare
	if over <= 0 {
		return 0, false, blocked, oldest
	}
	slices.Sort(inTheWay)
	if free = inTheWay[over-1]; free == NoExpiry {
		free = -1
	}
	return free, true, blocked, oldest
}

// see records the keys of one node. It returns how long the oldest of them has been there, and how
// much longer those remain that are older than longest.
func (seen Sightings) see(node int, now clock.Instant, longest time.Duration, keys []command.KeyState) (age, left time.Duration) {
	if len(seen[node]) < len(keys) {
		seen[node] = make([]sighting, len(keys))
	}
	for name, k := range keys {
		last, token := &seen[node][name], cmp.Or(k.Value, k.ForeignType)
		if token != last.token {
			*last = sighting{token, now}
		}
		if token == "" {
			continue
		}
		old := now.Sub(last.since)
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
