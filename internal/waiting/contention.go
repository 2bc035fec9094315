package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Failure is what is known of a failed attempt: its votes, and the keys that were found on the nodes.
type Failure struct {
	Names int // how many the attempt was for
	Need  int // votes for a majority
	// Refused and Failed count the nodes that refused, and those that failed or did not answer.
	Refused, Failed int
	Foreign         bool // keys that are not locks leave no quorum
	// Keys are by node and name; empty for a node that was not queried or did not answer.
	Keys    [][]command.KeyState
	Outages []Outage // by node
}

// Outage says whether a node failed in an attempt.
type Outage struct {
	Failed bool
	Left   time.Duration // how much longer it will not vote; NoExpiry if unknown
}

// Contention says what to wait for after a failed attempt.
type Contention struct {
	// Held reports that it is no split vote: one token is on a quorum, or no contender can have a
	// quorum.
	Held bool
	// FreeIn is the time until that can be over without a release. It is negative if unknown.
	FreeIn time.Duration
	// Blocked is how long the same keys have left no quorum, if no token is on one.
	Blocked time.Duration
	// Tokens identifies the tokens that are on a quorum, for all names.
	Tokens string
	// Foreign reports that a token is not from this library, so its release is not announced.
	Foreign bool

	Took  time.Duration // duration of the attempt until its decision
	Pause time.Duration // the least pause before the next attempt, as after a quarantine
	// Refused reports that contenders of other processes had votes.
	Refused bool
	// Assumed reports that no node was queried: see MayAssumeHeld.
	Assumed bool
	// Cut reports that the query of the nodes was cut short, so that only Took and Pause say anything.
	Cut bool
}

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
func (seen *Sightings) Explain(now clock.Instant, longest time.Duration, f Failure) (Contention, quorum.Loss) {
	c := holderOf(f)
	blocked := c.Held || f.Foreign
	if !c.Held {
		c.FreeIn, c.Held, c.Blocked = seen.blockedFor(now, longest, f)
	}
	return c, quorum.LossOf(len(f.Keys), f.Refused, f.Failed, blocked || c.Blocked > longest)
}

// TokensHolding maps the tokens that hold a name to the remaining times on each node.
func TokensHolding(nodes [][]command.KeyState, name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for _, keys := range nodes {
		if len(keys) > name && !keys[name].Free() {
			held[keys[name].Value] = append(held[keys[name].Value], keys[name].TTL)
		}
	}
	return held
}

// holderOf finds the name that one token holds on a quorum for the longest. FreeIn is the time
// until that quorum expires, unless it is extended.
func holderOf(f Failure) (c Contention) {
	var tokens strings.Builder
	for name := range f.Names {
		for token, left := range TokensHolding(f.Keys, name) {
			c.Foreign = c.Foreign || token != "" && !command.WellFormed(token)
			if len(left) < f.Need {
				continue
			}
			_, _ = fmt.Fprintln(&tokens, name, token)
			slices.Sort(left)
			// The name is free when fewer than a quorum are left.
			if d := left[len(left)-f.Need]; !c.Held || command.Outlasts(d, c.FreeIn) {
				c.Held, c.FreeIn = true, d
			}
		}
	}
	c.Tokens = tokens.String()
	return c
}

// blockedFor reports whether contenders are stuck: none can have a quorum until unchanged keys
// expire or a failed node votes again. free is how soon that can be without a release; negative if
// unknown. An attempt before that is useless. blocked is how long the same keys have left no quorum.
func (seen *Sightings) blockedFor(now clock.Instant, longest time.Duration, f Failure) (free time.Duration, stuck bool, blocked time.Duration) {
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
	blocked = ages[len(ages)-1-spare]
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
