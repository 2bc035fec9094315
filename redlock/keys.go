package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// writtenKeys records what the commands of a lock's token did, or may have done, on the nodes.
type writtenKeys struct {
	// While the lock is held its mu guards these four; after that they are constant. acquire is
	// the acquisition. It is nil after Resume, for a share, and for a lock that dropped it (see
	// dropAcquire).
	acquire  *vote.Round
	empty    quorum.Nodes  // nodes that hold no keys of it, once acquire is nil
	repaired quorum.Nodes  // nodes that a repair was sent to
	longest  time.Duration // longest TTL that any command set

	undo      atomic.Pointer[vote.Round] // the release, or another undo; nil before that, constant afterwards
	others    atomic.Uint32              // each command.Others that a node reported at the release, as a bit
	resumed   bool                       // another handle acquired the lock
	confirmed bool                       // the fence took a second round trip
}

// dropAcquire drops the acquisition of a held lock if every node has answered it, to save its memory. Of the answers it
// keeps only which nodes hold nothing.
func (k *writtenKeys) dropAcquire() {
	if k.acquire == nil {
		return
	}
	if empty, all := k.acquire.EmptyNodes(); all {
		k.acquire, k.empty = nil, empty
	}
}

// noneOn reports whether a node surely holds nothing of the token. It cancels an unsent acquire.
func (k *writtenKeys) noneOn(node int) bool {
	switch {
	case k.repaired.Has(node):
		return false
	case k.acquire == nil: // all nodes answered it during the hold, or another handle acquired the lock
		return k.empty.Has(node)
	}
	return k.acquire.LeftNothing(node)
}
