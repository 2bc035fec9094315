package wire

import (
	"strconv"
)

// Op is what a request asks a master to do.
type Op uint8

// The operations. Acquire alone creates keys; see [Op.Creates].
const (
	_            Op = iota
	Acquire         // take all keys for the token for TTL, or none of them; with a Hint, bump their fence counters
	Confirm         // raise the fence counters of keys that all hold the token to Fence
	Repair          // take for the token again those keys that are gone, where no other token holds one
	Extend          // lengthen all keys to TTL where all hold the token; never shortens, never creates
	Release         // delete those keys that hold the token
	Shorten         // lower those keys that hold the token to TTL; a release that honours a minimum hold
	Inspect         // read what the keys hold and for how long
	Ping            // answer
	VerifyMarker    // say where the node stands with the restart guard, and see to its marker
	Admit           // mark a node that has no marker as fit to vote
	Examine         // say what you are
	Poll            // say whether a key exists, and for how long; never a vote
)

// String names the operation as errors do.
func (op Op) String() string {
	switch op {
	case Acquire:
		return "acquire"
	case Confirm:
		return "confirm"
	case Repair:
		return "repair"
	case Extend:
		return "extend"
	case Release:
		return "release"
	case Shorten:
		return "shorten"
	case Inspect:
		return "inspect"
	case Poll:
		return "poll"
	case Ping:
		return "ping"
	case VerifyMarker:
		return "attest"
	case Admit:
		return "admit"
	case Examine:
		return "examine"
	}
	return "op(" + strconv.Itoa(int(op)) + ")"
}

// Creates reports whether the operation may create a key. Such a command is
// sent at most once on a node, and when its connection dies with it unanswered
// the server may still execute it later (docs/hazards.md H1, H95).
func (op Op) Creates() bool { return op == Acquire || op == Repair }

// Undoes reports whether the operation takes back what a token holds. Such a
// command is kept across connections until it is answered or its not-after
// instant has passed: it may be sent twice without harm.
func (op Op) Undoes() bool { return op == Release || op == Shorten }
