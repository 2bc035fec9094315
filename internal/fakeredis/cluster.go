package fakeredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const slots = 1 << 14

// Cluster is a Redis Cluster as clients see it: masters that know the slot map, and that answer
// MOVED and ASK for keys whose slots are elsewhere. Nothing in it happens by itself. Its masters
// have all faults of a [Master], but the Cluster uses their Hook.
type Cluster struct {
	// Masters are all masters, in the order of their creation.
	Masters []*Master

	name string
	slot func(key string) int

	mu     sync.Mutex // guards what follows, and Masters when a dial reads it
	owners [slots]*Master
	moving map[int]*Master // the target of a slot's migration
	asking map[*Master]map[int64]bool
	named  map[*Master]string // see Announce
}

// NewCluster creates a Cluster of masters, as New does, that share the slots evenly. slot returns
// the slot of a key.
func NewCluster(name string, masters int, slot func(key string) int) *Cluster {
	c := &Cluster{name: name, slot: slot, moving: map[int]*Master{}, named: map[*Master]string{}, asking: map[*Master]map[int64]bool{}}
	for range masters {
		c.Add()
	}
	for i := range c.owners {
		c.owners[i] = c.Masters[i*masters/slots]
	}
	return c
}

// Add creates one more master, without slots.
func (c *Cluster) Add() *Master {
	m := New(c.name + "-" + strconv.Itoa(len(c.Masters)+1))
	m.SetInfo("redis_mode", "cluster")
	m.Hook(func(client int64, cmd string, args []string) (string, bool) { return c.reply(m, client, cmd, args) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Masters = append(c.Masters, m)
	return m
}

// Announce makes all masters name m by another address, as cluster-announce-ip does: host:port, also
// "?" as the host or 0 as the port.
func (c *Cluster) Announce(m *Master, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named[m] = address
}

// addressOf returns the address by which a master is named; under mu.
func (c *Cluster) addressOf(m *Master) string {
	if named := c.named[m]; named != "" {
		return named
	}
	return m.Addr()
}

// Close closes all masters.
func (c *Cluster) Close() {
	for _, m := range c.Masters {
		m.Close()
	}
}

// Addresses returns the addresses of all masters.
func (c *Cluster) Addresses() (all []string) {
	for _, m := range c.Masters {
		all = append(all, m.Addr())
	}
	return all
}

// Dial dials the master with that address.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	all := c.Masters
	c.mu.Unlock()
	for _, m := range all {
		if m.Addr() == address {
			return m.Dial(ctx, network, address)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
}

// Owner returns the master that owns a key's slot.
func (c *Cluster) Owner(key string) *Master {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[c.slot(key)]
}

// StartMigration starts the migration of a key's slot to another master: MIGRATING here, IMPORTING
// there.
func (c *Cluster) StartMigration(key string, to *Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moving[c.slot(key)] = to
}

// MigrateKey moves a key to the target of its slot's migration, as MIGRATE does.
func (c *Cluster) MigrateKey(key string) {
	c.mu.Lock()
	from, to := c.owners[c.slot(key)], c.moving[c.slot(key)]
	c.mu.Unlock()
	migrate(key, from, to)
}

func migrate(key string, from, to *Master) {
	if v, ok := from.Get(key); ok {
		to.Set(key, v, from.TTL(key))
		from.Del(key)
	}
}

// FinishMigration gives a key's slot, and all its keys, to the target of the migration.
func (c *Cluster) FinishMigration(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.slot(key)
	from, to := c.owners[slot], c.moving[slot]
	for _, k := range from.Keys() {
		if c.slot(k) == slot {
			migrate(k, from, to)
		}
	}
	c.owners[slot] = to
	delete(c.moving, slot)
}

// MoveAtomically gives a key's slot, and all its keys, to another master at one instant, as CLUSTER
// MIGRATION (Redis 8.4) and CLUSTER MIGRATESLOTS (Valkey 9) do. Unlike MIGRATE these transfer
// expiries as instants, which the other master reads by its own clock.
func (c *Cluster) MoveAtomically(key string, to *Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.slot(key)
	from := c.owners[slot]
	later := from.clockAhead() - to.clockAhead()
	for _, k := range from.Keys() {
		if c.slot(k) != slot {
			continue
		}
		v, _ := from.Get(k)
		ttl := from.TTL(k)
		from.Del(k)
		if ttl == 0 {
			to.Set(k, v, 0)
		} else if ttl+later > 0 {
			to.Set(k, v, ttl+later)
		}
	}
	c.owners[slot] = to
}

// MoveSlot is StartMigration and FinishMigration.
func (c *Cluster) MoveSlot(key string, to *Master) {
	c.StartMigration(key, to)
	c.FinishMigration(key)
}

// TakeSlot gives all slots of one master to another, as after a failover. If keys is true the other
// master also gets the keys.
func (c *Cluster) TakeSlot(from, to *Master, keys bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.owners {
		if m == from {
			c.owners[i] = to
		}
	}
	for _, k := range from.Keys() {
		if v, ok := from.Get(k); ok && keys {
			to.Set(k, v, from.TTL(k))
		}
	}
}

func (c *Cluster) reply(m *Master, client int64, cmd string, args []string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asking[m][client]
	delete(c.asking[m], client)
	switch {
	case m.denies(cmd, args):
		return "", false
	case cmd == "CLUSTER":
		return c.clusterSlots(), true
	case cmd == "ASKING":
		if c.asking[m] == nil {
			c.asking[m] = map[int64]bool{}
		}
		c.asking[m][client] = true
		return "+OK", true
	}
	keys := keysOf(cmd, args)
	if len(keys) == 0 {
		return "", false
	}
	slot := c.slot(keys[0])
	there := 0
	for _, k := range keys {
		if c.slot(k) != slot {
			return "CROSSSLOT Keys in request don't hash to the same slot", true
		}
		if m.exists(k) {
			there++
		}
	}
	owner, to := c.owners[slot], c.moving[slot]
	some := there > 0 && there < len(keys)
	switch {
	case owner == nil:
		return "CLUSTERDOWN Hash slot not served", true
	case owner == m && to != nil && some, owner != m && to == m && asked && len(keys) > 1 && there < len(keys):
		return "TRYAGAIN Multiple keys request during rehashing of slot", true
	case owner == m && to != nil && there == 0:
		return fmt.Sprintf("ASK %d %s", slot, c.addressOf(to)), true
	case owner != m && (to != m || !asked):
		return fmt.Sprintf("MOVED %d %s", slot, c.addressOf(owner)), true
	}
	return "", false
}

// keysOf returns the keys of a command that clients of this library send.
func keysOf(cmd string, args []string) []string {
	switch cmd {
	case "EVAL", "EVALSHA":
		n, _ := strconv.Atoi(args[1])
		return args[2 : 2+n]
	case "GET", "SET", "DEL", "EXISTS", "TYPE", "STRLEN", "PTTL", "PEXPIRE":
		return args[:1]
	}
	return nil
}

// clusterSlots returns the answer of CLUSTER SLOTS; under mu.
func (c *Cluster) clusterSlots() string {
	var text strings.Builder
	ranges := 0
	for first := 0; first < slots; {
		last := first
		for last+1 < slots && c.owners[last+1] == c.owners[first] {
			last++
		}
		if m := c.owners[first]; m != nil {
			host, port, _ := net.SplitHostPort(c.addressOf(m))
			fmt.Fprintf(&text, "*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$0\r\n\r\n", first, last, len(host), host, port)
			ranges++
		}
		first = last + 1
	}
	return fmt.Sprintf("*%d\r\n%s", ranges, text.String())
}

// denies reports whether a command is denied.
func (m *Master) denies(cmd string, args []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.script.denies(cmd, args)
}
