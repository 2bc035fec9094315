package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Cluster opens a node that is an independent Redis Cluster: each lock is on the master
// that has the slot of its key, and goes with it when the slot moves. Addresses are those
// of Config.Cluster: host:port of some members, of which one must answer for all to be
// found. Of cfg the Address must be empty, and the Database 0; Username, Password, TLS and
// all else are those of every member, whose addresses are what the Cluster calls them
// (cluster-announce-ip, cluster-announce-hostname). It is Open with Config.Cluster set.
//
// A Cluster has at most 1,024 masters. A slot map (CLUSTER SLOTS) that names more is refused, and the
// node fails with an error that says so.
//
// One Cluster is one vote. All keys of a lock must have one hash slot. A replica that is
// promoted lacks what its master had acknowledged last, because replication is
// asynchronous, and the restart guard, which would keep it from voting, can't be here:
// a failover of one Cluster may have it grant a lock again. Prefer single masters, or
// Sentinel, where there is the choice.
func Cluster(addresses []string, cfg Config) (*Node, error) {
	cfg.Cluster = addresses
	return Open(cfg)
}

const (
	clusterScheme    = "redis+cluster"
	encryptedCluster = "rediss+cluster"
	defaultPort      = "6379"
	maxSeeds         = 64
)

func (c Config) checkCluster() error {
	errs := []error{inRange("the number of Cluster addresses", len(c.Cluster), 1, maxSeeds)}
	for i, a := range c.Cluster {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			errs = append(errs, badSetting("Cluster", a, "host:port"))
		}
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
		errs = append(errs, badSetting("Address", c.Address, "empty with a Cluster: its map says it"))
	case c.Database != 0:
		errs = append(errs, errors.New("a Cluster has no database but 0"))
	case c.Proxied:
		errs = append(errs, errors.New("a node is Proxied or a Cluster, not both: give the proxy's address as that of a single master"))
	}
	return oneline.Join(errs...)
}

// clusterURL shows how the Cluster is reached.
func (c Config) clusterURL(user string) string {
	scheme := clusterScheme
	if c.TLS != nil {
		scheme = encryptedCluster
	}
	return fmt.Sprintf("%s://%s%s", scheme, user, strings.Join(c.Cluster, ","))
}

// cluster is what a node knows of its Redis Cluster (docs/dev/rules.md rule 30): who its masters
// are, which slots each has, and where an acquire is that was not answered yet. It hands
// each command to the lanes of one master.
type cluster struct {
	node           *Node
	dialer         *poolDialer   // connections that are no lane's
	topologyClient *Node         // asks for the map
	wake           chan struct{} // ask at once; holds one

	// mu guards what follows. Nobody is called under it, and no other lock is taken: it may
	// be taken under a lane's.
	mu              sync.Mutex
	shards          map[string]*shard // by address: the masters, and those that were not long ago
	slotOwners      [wire.Slots]*shard
	hasTopology     bool              // there was a map
	changed         chan struct{}     // of the map: closed when there is some; made by who waits for it
	down            error             // why commands fail at once while there is no map; nil while one may come
	parked          []*wire.Command   // for the first map
	pendingAcquires map[string]*shard // by token: where those are that were not answered
	sessions        rawConns          // that dial made
	hint            string            // whom somebody was sent to last, who knows the latest map
	closed          bool
	redirects       int64 // commands that were sent on
}

func newCluster(n *Node) *cluster {
	cl := &cluster{
		node: n, dialer: newOwnPool(n.cfg), wake: make(chan struct{}, 1),
		shards: make(map[string]*shard), pendingAcquires: make(map[string]*shard), sessions: make(rawConns),
	}
	cl.topologyClient = &Node{cfg: n.cfg, dialer: cl.dialer}
	return cl
}

// dial leads to any of the masters: each hears what is published anywhere. The connection
// ends when that one is none any more.
func (cl *cluster) dial(ctx context.Context) (*rawConn, error) {
	if err := cl.waitTopology(ctx); err != nil {
		return nil, err
	}
	all, _ := cl.masters()
	if len(all) == 0 {
		return nil, ErrClosed
	}
	m := all[rand.IntN(len(all))]
	s, err := cl.dialer.dial(context.WithValue(ctx, addressKey{}, m.address))
	if err != nil {
		cl.wakeUp()
		return nil, err
	}
	s.address = m.address
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.sessions.track(s, &cl.mu)
	return s, nil
}

// close ends the connections that are no lane's. All else was shut.
func (cl *cluster) close() error { return cl.dialer.close() }

// stop ends all members, and answers what waits. It may be called more than once.
func (cl *cluster) stop() {
	cl.mu.Lock()
	waiting, all := cl.parked, slices.Collect(maps.Values(cl.shards))
	cl.closed, cl.parked = true, nil
	cl.mu.Unlock()
	for _, c := range waiting {
		c.Fail(ErrClosed)
	}
	for _, m := range all {
		_ = m.node.Close() // redigo's pool has nothing to say
	}
}
