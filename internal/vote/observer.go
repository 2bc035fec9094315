package vote

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Observer is told what clients do with locks, in order. A test writes it down, and the proof checks it
// (proof/check/README.md). It is called under mutexes of the locks: it must neither block nor call them.
type Observer interface {
	// Began reports a round about a lock. Its Start was read, and nothing was sent.
	Began(r *Round)
	// Answered reports a node's answer to any round. It has not been counted yet.
	Answered(r *Round, node int, rep command.Reply)
	// Decided reports that a lock is valid until an instant because of a round's answers. It was acquired,
	// with this fence, extended, resumed, or shortened.
	Decided(r *Round, until clock.Instant, fence int64)
	// Ended reports that an attempt or a lock is over, before it is undone. With kept it was detached.
	Ended(token string, kept bool)
}
