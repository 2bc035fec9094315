package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/signal"
)

// cluster is a node that is a Redis Cluster (docs/dev/rules.md rule 30). It has a shard for each
// member of its slot map, and routes each command to one of them.
type cluster struct {
	base    *node.Base
	of      kind
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

// newCluster makes a cluster without shards, and begins to query the slot map. Shards are made when the first one arrives, so
// that Open does not wait for the network.
func newCluster(base *node.Base, of kind) *cluster {
	cl := &cluster{
		base: base, of: of, slots: newSlotMap(base.Settings.HardTimeout), shards: make(map[string]*shard),
		subscriptions: make(map[*subscription]struct{}),
	}
	cl.refresh = newRefresher(cl)
	cl.refresh.begin()
	return cl
}

// End closes all shards, and answers the commands that wait. It may be called more than once.
func (cl *cluster) End() {
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

// masters returns the shards with slots, ordered by address, and the number of slots without one.
func (cl *cluster) masters() (all []*shard, unserved int) {
	cl.mu.Lock()
	// The result is a copy, so the caller uses the shards without the mutex. Under it no shard may
	// be called: it takes its own mutex first.
	defer cl.mu.Unlock()
	addresses, unserved := cl.slots.masters()
	for _, address := range addresses {
		all = append(all, cl.shards[address])
	}
	return all, unserved
}

// whyUnserved returns why slots have no master, and what to do.
func (cl *cluster) whyUnserved() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.slots.whyUnserved()
}

// Servers returns all masters, once there is a slot map.
func (cl *cluster) Servers(ctx context.Context) (door.Servers, error) {
	if err := cl.waitTopology(ctx); err != nil {
		return door.Servers{}, err
	}
	all, unserved := cl.masters()
	s := door.Servers{Cluster: true, Unserved: unserved, Gap: cl.whyUnserved()}
	for _, sh := range all {
		s.All = append(s.All, sh.Master)
	}
	return s, nil
}

// State adds the counters of the present shards. The counters of shards that have left the Cluster are lost. It returns the reason of the
// first of the masters that does not vote for its slots.
func (cl *cluster) State(s *node.Stats) (notVoting error) {
	masters, _ := cl.masters()
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
	return nil
}

// Subscribe returns a subscription without channels.
func (cl *cluster) Subscribe(listener command.Listener) command.Subscription {
	s := &subscription{
		cluster: cl, listener: listener, channels: make(map[string]*oneChannel), at: make(map[*shard]*shardSubscription),
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.subscriptions[s] = struct{}{}
	return s
}

// ownerOf returns the master that has the slot of a channel's key, or nil.
func (cl *cluster) ownerOf(channel string) *shard {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[cl.slots.owner(strings.TrimPrefix(channel, command.FreePrefix))]
}

// isMaster reports whether a shard is that of a master, as far as the slot map says.
func (cl *cluster) isMaster(sh *shard) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[sh.address] == sh && cl.slots.isMaster(sh.address)
}
