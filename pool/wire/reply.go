package wire

import (
	"time"
)

// Outcome is a node's vote.
type Outcome uint8

// The outcomes. Only Granted counts towards a quorum.
const (
	// Unknown: no answer in time, or none that says whether the command was
	// executed. It may have been, or still be: never a vote (docs/hazards.md H2, H75).
	Unknown Outcome = iota
	// Granted: done as asked.
	Granted
	// Refused: the node is well and says no: the name is held by somebody else,
	// or the token does not hold it (any more). Nothing was written.
	Refused
	// Failed: not executed, because the node could not or was not reached.
	Failed
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Granted:
		return "granted"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Reply is how a command ended.
type Reply struct {
	Outcome Outcome
	// NotSent: no byte of the command left this process. It goes with Failed.
	NotSent bool
	// Retrying: the server answered an undo by an error, and it is sent anew. The same
	// Answerer is told by another command, for the same node, how that ends.
	Retrying bool
	// WillRetry: the node will send the undo once more, though nobody need be told how that ends,
	// and so goes on looking at the request. An answer without it is the node's last look at a
	// command that was sent once.
	WillRetry bool
	// Undone: an undo that is Unknown, because it was sent twice, found nothing of the token on
	// the node. So nothing of it is left there, whatever the first one found.
	Undone bool
	// Err says why, for Failed and Unknown, and sometimes for Refused.
	Err error
	// Fence is the counters' number after a grant with fencing; 0 without.
	Fence int64
	// RemoteWaiters: somebody else waits for one of the keys that a Release freed.
	RemoteWaiters bool
	// MarkerStatus is what VerifyMarker and Admit found.
	MarkerStatus *MarkerStatus
	// Left is for how long the key of a refused Poll still exists; negative when it never expires.
	Left time.Duration
	// KeyStates is what Inspect found, one for each key in the request's order.
	KeyStates []KeyState
	// Diagnosis is what Examine found.
	Diagnosis *Diagnosis
}

// KeyState is what one key holds on one node.
type KeyState struct {
	// Value is the token that stands there; empty when there is none. Of a value that is
	// longer than any token it only tells the size (see LongValue).
	Value string
	// TTL is what remains; negative when the key never expires. Truncated to
	// milliseconds by the server.
	TTL time.Duration
	// ForeignType is the Redis type of a key that is no lock ("list", …); empty
	// otherwise. Such a key refuses every acquire (docs/hazards.md H44).
	ForeignType string
}

// Free reports whether no key stands there.
func (h KeyState) Free() bool { return h.Value == "" && h.ForeignType == "" }
