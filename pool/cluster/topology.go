package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
)

// toQuery returns the members to query, in this order.
func (cl *clusterNode) toQuery() []string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.slots.candidates(cl.of.Addresses, rand.Perm)
}

// apply replaces the slot map by that of a member. Commands that wait for a map are sent. Commands queued for a
// master that has lost its slot move to the new owner. A shard without slots for the hard timeout
// is retired.
//
// Everything after the mutex is released may take mutexes of servers or answer commands. The new map is
// in place by then, so a command that is routed again meanwhile follows it.
func (cl *clusterNode) apply(all []slotRange, by string) {
	cl.mu.Lock()
	// The node's Close has the list of all shards by now, and closes them. A shard that a later map
	// made would not be on that list.
	if cl.closed {
		cl.mu.Unlock()
		return
	}
	gone := cl.assignLocked(all, by)
	// Taken together with the new map, so no command is both unrouted and sent.
	waiting, subscriptions := cl.unrouted, slices.Collect(maps.Keys(cl.subscriptions))
	cl.hasTopology, cl.unrouted, cl.down = true, nil, nil
	cl.changed.Wake()
	shards := slices.Collect(maps.Values(cl.shards))
	cl.mu.Unlock()
	for _, c := range waiting {
		// First the commands that have waited for longest.
		cl.redispatch(c)
	}
	for _, sh := range shards {
		sh.moveQueued()
	}
	for _, sh := range gone {
		sh.Retire(func(c *command.Command) { handBack(cl, c) }, errNoMaster)
	}
	for _, s := range subscriptions {
		s.follow()
	}
}

// assignLocked tells the slot map, and makes the shards that are new. It removes and returns those that have to be
// retired.
func (cl *clusterNode) assignLocked(all []slotRange, by string) (gone []*shard) {
	added, left := cl.slots.mapped(all, by, cl.parts.Settings.Clock.Now())
	// A new address gets a shard of its own here. A known one keeps its shard, with its connections
	// and its unanswered commands.
	for _, address := range added {
		cl.shardOfLocked(address)
	}
	for _, address := range left {
		// Commands may still be unanswered here: the watchdog counts silence from its own checks.
		// retire therefore keeps the undos among them. apply calls retire after the mutex is
		// released, because retire waits for goroutines.
		gone = append(gone, cl.shards[address])
		delete(cl.shards, address)
	}
	return gone
}

// handBack routes a command of a retired shard again, and ends one that was for the server itself.
func handBack(cl *clusterNode, c *command.Command) {
	if slotted(c) {
		cl.redispatch(c)
		return
	}
	c.Fail(errNoMaster)
}

var errNoMaster = errors.New("pool: node is no longer a cluster master")

// topologyFailed ends the commands that wait for the first slot map, except undos that have not
// expired, and makes later commands fail at once. It reports whether the commands had waited
// until now.
func (cl *clusterNode) topologyFailed(err error) (news bool) {
	cl.mu.Lock()
	if cl.hasTopology {
		cl.mu.Unlock()
		return false // the present map remains: masters know their own slots
	}
	// From here on commands without a map fail at once. Waiting would hide the outage behind the
	// node timeout of each caller.
	news, cl.down = cl.down == nil, err
	var drop []*command.Command
	kept, now := cl.unrouted[:0], cl.parts.Member().Clock.Now()
	for _, c := range cl.unrouted {
		// An undo must reach the Cluster as long as its keys may exist. Every other command is
		// given up.
		if c.Op.Undoes() && !c.Expired(now) {
			kept = append(kept, c)
		} else {
			drop = append(drop, c)
		}
	}
	cl.unrouted = kept
	cl.changed.Wake()
	cl.mu.Unlock()
	for _, c := range drop {
		// Outside the mutex: Fail calls the coordinator, which may submit to this node again.
		c.Fail(err)
	}
	return news
}

// waitTopology returns when there is a slot map, or why there is none.
func (cl *clusterNode) waitTopology(ctx context.Context) error {
	for {
		cl.mu.Lock()
		hasTopology, down := cl.hasTopology, cl.down
		news := cl.changed.Next()
		cl.mu.Unlock()
		switch {
		case hasTopology:
			return nil
		case down != nil:
			return down
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("pool: %s: no cluster node has returned CLUSTER SLOTS yet", cl.parts.Name)
		}
	}
}

// Servers returns all masters, once there is a slot map.
func (cl *clusterNode) Servers(ctx context.Context) (node.Servers, error) {
	if err := cl.waitTopology(ctx); err != nil {
		return node.Servers{}, err
	}
	all, unserved, why := cl.masters()
	s := node.Servers{Cluster: true, Unserved: unserved, Gap: why}
	for _, sh := range all {
		s.All = append(s.All, sh.Master)
	}
	return s, nil
}
