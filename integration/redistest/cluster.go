package redistest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// Cluster is a Redis Cluster on a network of its own.
type Cluster struct {
	*Network
	Masters []*Node // as they were in the beginning; the slots are shared evenly
	Replica *Node   // of the first master; nil without
}

// StartCluster runs a Cluster of so many masters, with a replica of the first one if that is asked for, and returns when all of them
// agree that it is well. They take a master for dead that was silent for a second; for a failover it takes three.
func StartCluster(t testing.TB, masters int, replica bool, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{Network: NewNetwork(t)}
	n := masters
	if replica {
		n++
	}
	all := Start(t, n, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000"}, args...)...)
	c.Join(t, all...)
	c.Masters = all[:masters]
	for i, m := range all {
		m.Do(t, "CONFIG", "SET", "cluster-announce-ip", c.Host(m))
		m.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			all[0].Do(t, "CLUSTER", "MEET", c.Host(m), 6379)
		}
	}
	for i, m := range c.Masters {
		m.Do(t, "CLUSTER", slotsFrom(i*wire.Slots/masters, (i+1)*wire.Slots/masters)...)
	}
	if replica {
		c.Replica = all[masters]
		id := c.id(t, all[0])
		await(t, "the replica has heard of its master", func() bool {
			_, err := c.Replica.Try("CLUSTER", "REPLICATE", id)
			return err == nil
		})
		await(t, "the replica is there", func() bool {
			return strings.Contains(text(c.Replica.Do(t, "INFO", "replication")), "master_link_status:up")
		})
	}
	for _, m := range all {
		await(t, "the Cluster is well", func() bool {
			info := text(m.Do(t, "CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(n))
		})
	}
	return c
}

func slotsFrom(first, end int) []any {
	args := []any{"ADDSLOTS"}
	for s := first; s < end; s++ {
		args = append(args, s)
	}
	return args
}

func (c *Cluster) id(t testing.TB, n *Node) string {
	t.Helper()
	return text(n.Do(t, "CLUSTER", "MYID"))
}

// Owner is the server that has a key's slot, as one of them says that is up.
func (c *Cluster) Owner(t testing.TB, key string) *Node {
	t.Helper()
	for _, m := range append(slices.Clone(c.Masters), c.Replica) {
		if m == nil {
			continue
		}
		list, err := redis.Values(m.Try("CLUSTER", "SLOTS"))
		if err != nil {
			continue
		}
		for _, entry := range list {
			parts, _ := redis.Values(entry, nil)
			first, _ := redis.Int(parts[0], nil)
			last, _ := redis.Int(parts[1], nil)
			if slot := wire.Slot(key); first <= slot && slot <= last {
				at, _ := redis.Values(parts[2], nil)
				return c.Node(text(at[0]) + ":6379")
			}
		}
	}
	t.Fatalf("redistest: nobody has the slot of %q", key)
	return nil
}

// Migrate moves a key's slot to another master while everybody goes on, as redis-cli --cluster reshard does. Between its steps pause
// is called.
func (c *Cluster) Migrate(t testing.TB, key string, to *Node, pause func()) {
	t.Helper()
	from, slot := c.Owner(t, key), wire.Slot(key)
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(t, from))
	pause()
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(t, to))
	for {
		pause()
		keys, err := redis.Strings(from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		from.Do(t, "MIGRATE", redis.Args{c.Host(to), 6379, "", 0, 5000, "KEYS"}.AddFlat(keys)...)
	}
	for _, n := range append([]*Node{to, from}, c.Masters...) {
		n.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.id(t, to))
		pause()
	}
}
