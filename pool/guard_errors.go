package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// errUnmarked is why a command does not count under the restart guard as long as the state of the
// node's marker is unknown. An acquisition asks for the state. A query of the holders does not.
var errUnmarked = errors.New("pool: node is not admitted by the restart guard (new or restarted); the next acquisition starts its quarantine")

// errNoGuard reports a defect of the caller.
var errNoGuard = errors.New("pool: guarded command without a restart guard")

// mismatchError matches ErrGuardMismatch, and what it wraps.
type mismatchError struct{ error }

// Is reports whether target is ErrGuardMismatch.
func (m mismatchError) Is(target error) bool { return target == command.ErrGuardMismatch }

// Unwrap returns the error with the details, which matches ErrUnfit.
func (m mismatchError) Unwrap() error { return m.error }

// errGuardedNode: docs/dev/rules.md rule 17, docs/dev/hazards.md H112.
func errGuardedNode(node, marker string) error {
	return mismatchError{fmt.Errorf("pool: %w: %s is guarded (key %s is %q), but this client has no restart guard and its locks would be unknown "+
		"to the guard: use WithRestartGuard, or name the node in WithUnsafeNodes while the guard is introduced",
		command.ErrUnfit, node, guard.Key, oneline.Printable(marker))}
}

// errForeignMarker: docs/dev/hazards.md H40.
func errForeignMarker(node, marker string) error {
	return mismatchError{fmt.Errorf("pool: %w: %s is guarded by clients with another list of nodes, another maxTTL or another name for it (key %s "+
		"is %q), and those clients and this one do not exclude each other: give all clients the same settings; to change them, stop the old "+
		"clients, wait their maxTTL, and delete the key", command.ErrUnfit, node, guard.Key, oneline.Printable(marker))}
}

// errMarkerNoMaster reports a replica. Its copy of the marker is that of its master, so it says
// nothing about the replica.
func errMarkerNoMaster(node string) error {
	return fmt.Errorf("pool: %w: %s is a replica, and the restart guard admits only masters: give the address of a master", command.ErrUnfit, node)
}

// QuarantineError reports that a healthy node does not vote yet, because the restart guard quarantines
// it.
type QuarantineError struct {
	Node string
	// Remaining is how much longer the quarantine lasts, from when the error was made.
	Remaining time.Duration
}

// Error returns the rest of the quarantine and its cause.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("quarantined for %v more: it was started, emptied or promoted, or is new", e.Remaining.Round(time.Millisecond))
}
