package redistest

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Cluster is a Redis Cluster.
type Cluster struct {
	*Network
	Masters []*Node // at the start; they share the slots evenly
	Replica *Node   // of the first master; nil without a replica
}

// StartCluster starts a Cluster of the given number of masters, and a replica of the first one if
// requested. It returns when all servers report the Cluster as healthy. A busy machine causes no
// failover: see [Cluster.ReplaceMasters].
func StartCluster(t testing.TB, masters int, replica bool) *Cluster {
	t.Helper()
	requireEngine(t)
	c := &Cluster{Network: newNetwork(t, onMachine())}
	n := masters
	if replica {
		n++
	}
	all := startAll(t, n, launch{cluster: true, args: []string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", "60000", // a server gives up another one that it has met and that does not answer within it
		"--cluster-replica-validity-factor", "0", // a replica stands for election, however long it was disconnected
	}})
	c.join(t, all...)
	c.Masters = all[:masters]
	for i, m := range all {
		m.Do(t, "CONFIG", "SET", "cluster-announce-ip", c.at(m)[0])
		m.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters { // before the servers meet, so that the first message says it
			m.Do(t, "CLUSTER", slotsFrom(i*slots/masters, (i+1)*slots/masters)...)
		}
	}
	for i, m := range all {
		for _, other := range all[:i] {
			m.Do(t, "CLUSTER", redis.Args{"MEET"}.AddFlat(c.at(other))...)
		}
	}
	if replica {
		c.Replica = all[masters]
		id := c.id(t, all[0])
		await(t, "the replica knows its master", func() bool {
			_, err := c.Replica.Try("CLUSTER", "REPLICATE", id)
			return err == nil
		})
		await(t, "the replica is connected", func() bool {
			return strings.Contains(text(c.Replica.Do(t, "INFO", "replication")), "master_link_status:up")
		})
	}
	for _, m := range all {
		await(t, "the Cluster is healthy", func() bool {
			info := text(m.Do(t, "CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(n))
		})
	}
	return c
}

// ReplaceMasters has the Cluster promote the replica of a master that has been silent for a second. It
// needs three masters.
func (c *Cluster) ReplaceMasters(t testing.TB) {
	t.Helper()
	for _, m := range append(slices.Clone(c.Masters), c.Replica) {
		m.Do(t, "CONFIG", "SET", "cluster-node-timeout", 1000)
	}
}

// slots is the number of slots of every Cluster.
const slots = 16384

// slot returns a key's slot, as the first server that answers computes it.
func (c *Cluster) slot(t testing.TB, key string) int {
	t.Helper()
	for _, m := range c.Masters {
		if slot, err := redis.Int(m.Try("CLUSTER", "KEYSLOT", key)); err == nil {
			return slot
		}
	}
	t.Fatalf("redistest: no server computes the slot of %q", key)
	return 0
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

// Owner returns the server that owns a key's slot, according to the first server that answers.
func (c *Cluster) Owner(t testing.TB, key string) *Node {
	t.Helper()
	slot := c.slot(t, key)
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
			if first <= slot && slot <= last {
				at, _ := redis.Values(parts[2], nil)
				port, _ := redis.Int(at[1], nil)
				return c.Node(net.JoinHostPort(text(at[0]), strconv.Itoa(port)))
			}
		}
	}
	t.Fatalf("redistest: no server owns the slot of %q", key)
	return nil
}

// MoveSlot moves a key's slot to another master while clients use it: at once, where servers can do that
// (Valkey 9), else by [Cluster.Migrate].
func (c *Cluster) MoveSlot(t testing.TB, key string, to *Node, pause func()) {
	t.Helper()
	c.agreed(t)
	slot := c.slot(t, key)
	_, err := c.Owner(t, key).Try("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", c.id(t, to))
	switch {
	case err == nil:
		await(t, "the slot has moved", func() bool {
			pause()
			return c.Owner(t, key) == to
		})
	case strings.Contains(strings.ToLower(err.Error()), "unknown subcommand"):
		c.Migrate(t, key, to, pause)
	default:
		t.Fatal(err)
	}
}

// Migrate moves a key's slot to another master key by key while clients use it, as redis-cli --cluster
// reshard does. It calls pause between its steps.
func (c *Cluster) Migrate(t testing.TB, key string, to *Node, pause func()) {
	t.Helper()
	c.agreed(t)
	from, slot := c.Owner(t, key), c.slot(t, key)
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(t, from))
	pause()
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(t, to))
	for failed := 0; ; {
		if failed == 0 { // otherwise the other server may have a copy of what clients change here
			pause()
		}
		keys, err := redis.Strings(from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		if err := c.migrate(from, to, keys); err == nil {
			failed = 0
		} else if failed++; failed == Slack || !strings.HasPrefix(err.Error(), "IOERR ") {
			t.Fatal(err)
		}
	}
	for _, n := range append([]*Node{to, from}, c.Masters...) {
		n.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.id(t, to))
		pause()
	}
}

// migrateWithin bounds MIGRATE, during which the server does nothing else. It is shorter than the node timeout.
const migrateWithin = 30 * time.Second

// migrate moves keys to another server. After an IOERR the other server may have them already, beside this one.
func (c *Cluster) migrate(from, to *Node, keys []string) error {
	conn, err := from.connect(2 * migrateWithin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	args := redis.Args{}.AddFlat(c.at(to)).Add("", 0, migrateWithin.Milliseconds(), "REPLACE", "KEYS").AddFlat(keys)
	_, err = conn.Do("MIGRATE", args...)
	return err
}

// agreed waits until all masters have heard of each other's last move. If a master takes a slot before, its claim may
// get the epoch of an earlier one. The masters then raise one of the two, and if it is that of the old owner, each of
// both says that the other has the slot, for good.
func (c *Cluster) agreed(t testing.TB) {
	t.Helper()
	await(t, "all masters know the same epochs, one for each", func() bool {
		first := c.epochs(t, c.Masters[0])
		distinct := map[string]bool{}
		for _, epoch := range first {
			distinct[epoch] = true
		}
		return len(distinct) == len(c.Masters) && !slices.ContainsFunc(c.Masters[1:], func(m *Node) bool {
			return !maps.Equal(first, c.epochs(t, m))
		})
	})
}

// epochs returns the configuration epochs of the masters, as a server knows them.
func (c *Cluster) epochs(t testing.TB, m *Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(text(m.Do(t, "CLUSTER", "NODES"))) { // ID, address, flags, master, ping, pong, epoch, …
		if words := strings.Fields(line); strings.Contains(words[2], "master") {
			all[words[0]] = words[6]
		}
	}
	return all
}
