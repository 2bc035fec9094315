package command

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/guard"
)

// Outcome is a node's vote.
type Outcome uint8

// The outcomes. Only Granted counts towards a quorum.
const (
	// Unknown means no answer in time, or an answer that does not tell whether the command was
	// executed. It may have been, or may still be: never a vote (docs/dev/hazards.md H2, H75).
	Unknown Outcome = iota
	// Granted means executed as requested.
	Granted
	// Refused means that the node is healthy and refuses: another client holds the name, or the
	// token does not hold it any more. Nothing was written, except that a release of several keys
	// may have deleted some of them.
	Refused
	// Failed means not executed, because the node could not execute it or was not reached.
	Failed
)

// String returns the outcome's name.
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

// Reply is the answer to a command.
type Reply struct {
	Outcome Outcome
	// NotSent reports that no byte of the command left this process. From a node the outcome is
	// Failed. A round that skips a node chooses the outcome itself.
	NotSent bool
	// Retrying reports that the server answered an undo by an error, and that the undo is sent
	// again. The same Answerer receives the result by another command for the same node.
	Retrying bool
	// Undone reports that an undo, which is Unknown because it was sent twice, found nothing of
	// the token on the node. Whatever the first one found, nothing is left.
	Undone bool
	// Err is the reason, for Failed and Unknown, and sometimes for Refused.
	Err error
	// Fence is the value of the counters after a grant with fencing; 0 without.
	Fence int64
	// Others says whether another process waits for one of the keys that a Release freed.
	Others Others
	// MarkerStatus is the result of VerifyMarker.
	MarkerStatus *guard.MarkerStatus
	// Left is the TTL of the key of a refused Poll; negative if the key never expires.
	Left time.Duration
	// KeyStates is the result of Inspect, one for each key in the order of the request.
	KeyStates []KeyState
}

// KeyState is the state of one key on one node.
type KeyState struct {
	// Value is the token that the key holds; empty if the key does not exist. For a value that is
	// longer than any token it is only its size (see LongValue).
	Value string
	// TTL is the remaining TTL; negative if the key never expires. The server truncates it to
	// milliseconds.
	TTL time.Duration
	// ForeignType is the Redis type of a key that is not a lock ("list" and so on); empty
	// otherwise. Such a key refuses every acquire (docs/dev/hazards.md H44).
	ForeignType string
}

// Free reports whether the key does not exist.
func (h KeyState) Free() bool { return h.Value == "" && h.ForeignType == "" }

// Outlasts reports whether a key with a remaining TTL remains longer than one with the other. A
// negative TTL never ends.
func Outlasts(ttl, other time.Duration) bool {
	return other >= 0 && (ttl < 0 || ttl > other)
}

// Others says whether other processes wait for a key.
type Others uint8

// Larger values take precedence. Each has a bit of its own.
const (
	NoOthers      Others = iota
	OthersUnknown        // a right to count them is missing
	OthersWait
)
