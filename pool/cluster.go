package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/signal"
)

const (
	clusterScheme = "redis+cluster"
	defaultPort   = "6379"
	maxSeeds      = 64
)

// checkCluster returns what is wrong with a Config for a Cluster: all wrong addresses, and the
// first setting that a Cluster excludes.
func (c Config) checkCluster() error {
	errs := []error{inRange("the number of Cluster addresses", len(c.Cluster), 1, maxSeeds)}
	// Every wrong address is reported in one error, so a list is corrected in one go.
	for i, a := range c.Cluster {
		errs = append(errs, checkHostPort("Cluster", a))
		if slices.Contains(c.Cluster[:i], a) {
			errs = append(errs, errors.New("a member of the Cluster is listed twice"))
		}
	}
	switch {
	case c.Sentinels != nil:
		errs = append(errs, errors.New("a node is a Cluster or follows Sentinels, not both"))
	case c.Network != "tcp":
		errs = append(errs, badSetting("Network", c.Network, "tcp with a Cluster"))
	case c.Address != "":
		errs = append(errs, badSetting("Address", c.Address, "empty with a Cluster"))
	case c.Database != 0:
		errs = append(errs, errors.New("a Cluster has only database 0"))
	case c.Proxied:
		errs = append(errs, errors.New("a node is Proxied or a Cluster, not both: give the proxy's address as that of a single master"))
	}
	return oneline.Join(errs...)
}

// clusterURL returns the URL of the Cluster.
func (c Config) clusterURL(user string) string {
	return fmt.Sprintf("%s://%s%s", schemeOf(clusterScheme, c.TLS != nil), user, strings.Join(c.Cluster, ","))
}

// cluster is a node that is a Redis Cluster (docs/dev/rules.md rule 30). It has a shard for each
// member of its slot map, and routes each command to one of them.
type cluster struct {
	node       *Node
	wake       signal.Signal  // query at once
	refreshing sync.WaitGroup // the goroutine that queries
	stop       context.CancelFunc

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
	subscriptions map[*clusterSubscription]struct{}
	closed        bool
	redirects     int64 // commands that were redirected
}

// newCluster makes a cluster without shards, and begins to query the slot map. Shards are made when the first one arrives, so
// that Open does not wait for the network.
func newCluster(n *Node) *cluster {
	cl := &cluster{
		node: n, wake: signal.New(), slots: newSlotMap(n.cfg.HardTimeout), shards: make(map[string]*shard),
		subscriptions: make(map[*clusterSubscription]struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	cl.stop = stop
	cl.refreshing.Go(func() { cl.refreshLoop(ctx) })
	return cl
}

// close closes all shards, and answers the commands that wait. It may be called more than once.
func (cl *cluster) close() {
	cl.mu.Lock()
	waiting, all := cl.unrouted, slices.Collect(maps.Values(cl.shards))
	// Under the lock that route takes: a command that comes later fails by itself.
	cl.closed, cl.unrouted = true, nil
	cl.mu.Unlock()
	// Outside the mutex: Fail calls the coordinator, which may submit to this node again. Close
	// waits for goroutines of the shards, and these take the mutex.
	for _, c := range waiting {
		c.Fail(ErrClosed)
	}
	for _, sh := range all {
		sh.close()
	}
	cl.stop()
	cl.refreshing.Wait()
}
