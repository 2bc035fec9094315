package verdict

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Why is the reason of a failed attempt.
type Why uint8

// The reasons of a failed attempt.
const (
	// Fault: so many nodes did not vote that the others cannot grant, or a majority granted in vain.
	Fault Why = iota
	// Split: contenders may have split the votes, so another attempt may win.
	Split
	// Held: another client has the lock.
	Held
	// Assumed: enough nodes refused, and no node was queried. After a release others were faster.
	Assumed
	// Cut: nodes refused, and the query was cut short. Nothing else is known.
	Cut
)

// Refused reports that contenders of other processes had votes.
func (w Why) Refused() bool { return w != Fault }

// Lost returns why a vote of n nodes was lost: Fault, Split or Held. refused nodes refused, and failed nodes failed or
// did not answer. blocked is the result of a query: one token is on a quorum of the nodes, or keys that outlive every
// attempt leave no quorum.
func Lost(n, refused, failed int, blocked bool) Why {
	switch {
	case blocked && quorum.Blocks(n, refused):
		return Held
	case quorum.Blocks(n, failed):
		return Fault
	}
	return Split
}

// NoExpiry is the remaining time of a key that never expires, or of an outage of unknown duration.
const NoExpiry time.Duration = 1<<63 - 1

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
	Why Why
	// Stuck reports that an attempt is useless until FreeIn or a release: one token is on a quorum, or no contender can
	// have a quorum. A fault or a split vote may be stuck too.
	Stuck bool
	// FreeIn is the time until that can be over without a release. It is negative if unknown.
	FreeIn time.Duration
	// Blocked is how long the same keys have left no quorum, if no token is on one.
	Blocked time.Duration
	// Oldest is how long one of the keys in the way has been there, if no token is on a quorum.
	Oldest time.Duration
	// Tokens has the tokens that are on a quorum, by name; nil if there is none.
	Tokens []string
	// Foreign reports that a token is not from this library, so its release is not announced.
	Foreign bool

	Took  time.Duration // duration of the attempt until its decision
	Pause time.Duration // the least pause before the next attempt, as after a quarantine
}
