package pool

import (
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// errUnmarked is why a command did not count under the restart guard before it is known
// what is the matter with the node's marker: an acquisition asks, a look does not.
var errUnmarked = errors.New("pool: the node has not the marker that lets it vote: it is new, or may have forgotten locks; " +
	"an acquisition asks it for how long")

// errNoGuard is a defect of the caller's.
var errNoGuard = errors.New("pool: a guarded command of a fleet without a guard")

// mismatchError matches ErrGuardMismatch, besides what is in it.
type mismatchError struct{ error }

func (m mismatchError) Is(target error) bool { return target == wire.ErrGuardMismatch }

func (m mismatchError) Unwrap() error { return m.error }

// errGuardedNode: docs/rules.md rule 17, docs/hazards.md H112.
func errGuardedNode(node, marker string) error {
	return mismatchError{fmt.Errorf("pool: %w: %s is guarded (%s is %q), and this client is not: its locks would be unknown to the guard; "+
		"use WithRestartGuard, or name the node in WithUnsafeNodes while the guard is being switched on", wire.ErrUnfit, node, wire.MarkerKey, wire.Printable(marker))}
}

// errForeignMarker: docs/hazards.md H40.
func errForeignMarker(node, marker string) error {
	return mismatchError{fmt.Errorf("pool: %w: %s is guarded by clients of another list of nodes, another maxTTL or another name for it (%s is %q): two "+
		"fleets do not exclude each other; give all clients the same, or, to change them, stop the old ones, wait their maxTTL, and delete that key",
		wire.ErrUnfit, node, wire.MarkerKey, wire.Printable(marker))}
}

func errMarkerNoMaster(node string) error {
	return fmt.Errorf("pool: %w: %s is a replica, which no restart guard lets vote: give the address of a master", wire.ErrUnfit, node)
}
