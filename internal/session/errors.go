package session

import (
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// mismatchError reports that the node's guard is not this client's. The text begins with what to do.
type mismatchError string

// Error returns what to do, and what differs.
func (m mismatchError) Error() string { return "pool: " + string(m) }

// Is reports whether target is ErrGuardMismatch or ErrUnfit.
func (m mismatchError) Is(target error) bool {
	return target == command.ErrGuardMismatch || target == command.ErrUnfit
}

// GuardedNode returns why a client without the guard does not use a node with a marker (docs/dev/rules.md rule 17,
// docs/dev/hazards.md H112).
func GuardedNode(node, marker string) error {
	maxTTL := ""
	if m, err := guard.ParseMarker(marker); err == nil {
		maxTTL = fmt.Sprintf(" with a maxTTL of %v", m.MaxTTL)
	}
	return mismatchError(fmt.Sprintf("use WithRestartGuard (redlock --guard)%s, or name the node in WithUnsafeNodes while the guard is "+
		"introduced: %s is guarded (key %s), but this client has no restart guard and its locks would be unknown to the guard",
		maxTTL, node, guard.Key))
}

// ForeignMarker returns why a node with a marker of other settings does not vote (docs/dev/hazards.md H40).
func ForeignMarker(node, marker string, ours *guard.Settings) error {
	m, err := guard.ParseMarker(marker)
	if err != nil {
		return mismatchError(fmt.Sprintf("stop all clients, wait for the longest TTL, and delete %s's key %s: it is no marker of this "+
			"version's restart guard (%v)", node, guard.Key, err))
	}
	return mismatchError(fmt.Sprintf("give all clients the same settings: %s is guarded by clients with other ones (%s), and those clients and "+
		"this one do not exclude each other; to change the settings, stop the old clients, wait for their maxTTL of %v, and delete the node's "+
		"key %s", node, strings.Join(ours.Mismatches(m, node), "; "), m.MaxTTL, guard.Key))
}

// NoMaster reports a replica. Its copy of the marker is that of its master, so it says
// nothing about the replica.
func NoMaster(node string) error {
	return fmt.Errorf("pool: %w: %s is a replica, and the restart guard admits only masters: give the address of a master", command.ErrUnfit, node)
}
