package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/signal"
)

// clusterNode is a node that is a Redis Cluster (docs/dev/rules.md rule 30). It has a shard for each
// member of its slot map, and routes each command to one of them.
type clusterNode struct {
	parts   *node.Parts
	of      *Config
	refresh *refresher // asks for the slot map

	// mu guards what follows. It may be taken under mutexes of servers, so no server is called and no
	// command is answered under it. A new shard only starts goroutines, which wait for mu if they
	// need it.
	mu            sync.Mutex
	slots         slotMap            // says where a command goes
	shards        map[string]*shard  // one for each member of the slot map, by address
	hasTopology   bool               // there was a slot map
	changed       signal.Broadcast   // of a slot map, or that none will come
	down          error              // why commands fail at once without a slot map; nil while one may come
	unrouted      []*command.Command // commands that wait for the first slot map
	subscriptions map[*subscription]struct{}
	closed        bool
	redirects     int64 // commands that were redirected
}

// newCluster makes a node without shards, and begins to query the slot map. Shards are made when the first one arrives, so
// that Open does not wait for the network.
func newCluster(parts *node.Parts, of *Config) *clusterNode {
	cl := &clusterNode{
		parts: parts, of: of, slots: newSlotMap(parts.Settings.HardTimeout), shards: make(map[string]*shard),
		subscriptions: make(map[*subscription]struct{}),
	}
	cl.refresh = newRefresher(cl, parts)
	cl.refresh.begin()
	return cl
}

// End closes all shards, and answers the commands that wait. It may be called more than once.
func (cl *clusterNode) End() {
	cl.mu.Lock()
	waiting, all := cl.unrouted, slices.Collect(maps.Values(cl.shards))
	// Under the lock that route takes: a command that comes later fails by itself.
	cl.closed, cl.unrouted = true, nil
	cl.mu.Unlock()
	// Outside the mutex: Fail calls the coordinator, which may submit to this node again. Close
	// waits for goroutines of the shards, and these take the mutex.
	for _, c := range waiting {
		c.Fail(server.ErrClosed)
	}
	for _, sh := range all {
		sh.End()
	}
	cl.refresh.end()
}

// unassigned returns an error if slots have no master: a lock in one of them could not be acquired, so the node is not
// healthy as a whole.
func unassigned(node string, slots int, why string) error {
	if slots == 0 {
		return nil
	}
	return fmt.Errorf("pool: %w: %s: %d of %d slots are unassigned: %s", command.ErrUnfit, node, slots, command.Slots, why)
}

// masters returns the shards with slots, ordered by address, the number of slots without one, and why these have none.
func (cl *clusterNode) masters() (all []*shard, unserved int, why string) {
	cl.mu.Lock()
	// The result is a copy, so the caller uses the shards without the mutex. Under it no shard may
	// be called: it takes its own mutex first.
	defer cl.mu.Unlock()
	addresses, unserved := cl.slots.masters()
	for _, address := range addresses {
		all = append(all, cl.shards[address])
	}
	return all, unserved, cl.slots.whyUnserved()
}

// State adds the counters of the present shards. The counters of shards that have left the Cluster are lost. It returns the reason of the
// first of the masters that does not vote for its slots, or that slots have no master.
func (cl *clusterNode) State(s *node.Stats) (notVoting error) {
	masters, unserved, why := cl.masters()
	cl.mu.Lock()
	// Commands that wait for the first slot map are queued at no server yet.
	s.Masters, s.Redirects, s.Queued = len(masters), cl.redirects, len(cl.unrouted)
	all := slices.Collect(maps.Values(cl.shards))
	closed, mapped, down := cl.closed, cl.hasTopology, cl.down
	cl.mu.Unlock()
	// Without the mutex: a server takes its own, under which cl.mu may be taken.
	for _, sh := range all {
		_ = sh.State(s)
	}
	switch {
	case closed:
		return server.ErrClosed
	case !mapped && down != nil:
		return down
	case !mapped:
		return server.ErrConnecting
	}
	for _, sh := range masters {
		if err := sh.WhyNotVoting(); err != nil {
			return err
		}
	}
	return unassigned(cl.parts.Name, unserved, why)
}

// Subscribe returns a subscription without channels.
func (cl *clusterNode) Subscribe(listener command.Listener) command.Subscription {
	s := &subscription{
		places: cl, listener: listener, channels: make(map[string]*oneChannel), at: make(map[*shard]*shardSubscription),
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.subscriptions[s] = struct{}{}
	return s
}

// ownerOf returns the master that has the slot of a channel's key, or nil.
func (cl *clusterNode) ownerOf(channel string) *shard {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[cl.slots.owner(strings.TrimPrefix(channel, command.FreePrefix))]
}

// serves reports whether a shard is that of a master, as far as the slot map says.
func (cl *clusterNode) serves(sh *shard) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[sh.address] == sh && cl.slots.isMaster(sh.address)
}

// forget removes a subscription that was closed.
func (cl *clusterNode) forget(s *subscription) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	delete(cl.subscriptions, s)
}

// whoNamed returns who named an address, or "" if the configuration has it, or if it is being retired.
func (cl *clusterNode) whoNamed(address string) string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if slices.Contains(cl.of.Addresses, address) {
		return ""
	}
	return cl.slots.namedBy(address)
}

// queryMap has the slot map queried soon: it may be old.
func (cl *clusterNode) queryMap() { cl.refresh.wake.Set() }

// shardOfLocked returns the shard of an address that the slot map has, and makes it if necessary. The
// cluster must not be closed.
func (cl *clusterNode) shardOfLocked(address string) *shard {
	sh := cl.shards[address]
	if sh == nil {
		sh = newShard(cl, cl.parts, address)
		cl.shards[address] = sh
	}
	return sh
}
