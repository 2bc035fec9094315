package fakeredis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// newRun returns a run with random IDs.
func newRun() run { return run{id: randomID(), replID: randomID(), began: now()} }

// randomID returns 40 hexadecimal digits.
func randomID() string {
	var p [20]byte
	_, _ = rand.Read(p[:]) // never fails
	return hex.EncodeToString(p[:])
}

// section is a section of INFO. Its fields are names and values in turn.
type section struct {
	name   string
	fields []string
}

// info returns the answer of INFO: all sections, or those that are named.
func (m *Master) info(names []string) string {
	var text strings.Builder
	for _, s := range m.sections() {
		if !wanted(s.name, names) {
			continue
		}
		fmt.Fprintf(&text, "# %s%s\r\n", strings.ToUpper(s.name[:1]), s.name[1:])
		for f := range slices.Chunk(s.fields, 2) {
			if f[0] == "slave_read_only" && m.field("role", "master") == "master" {
				continue // a master does not have this field
			}
			fmt.Fprintf(&text, "%s:%s\r\n", f[0], m.field(f[0], f[1]))
		}
		text.WriteString("\r\n")
	}
	return text.String()
}

func wanted(name string, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool {
		n = strings.ToLower(n)
		return n == name || n == "all" || n == "everything" || n == "default"
	})
}

// field returns the value that SetInfo has set, or else the given value.
func (m *Master) field(name, value string) string {
	if v, ok := m.script.info[name]; ok {
		return v
	}
	return value
}

func (m *Master) sections() []section {
	_, port, _ := net.SplitHostPort(m.addr)
	up := now().Sub(m.run.began)
	return []section{
		{"server", []string{
			"redis_version", "7.2.4", "redis_mode", "standalone", "arch_bits", "64",
			"process_id", strconv.Itoa(os.Getpid()), "run_id", m.run.id, "tcp_port", port,
			"uptime_in_seconds", strconv.Itoa(int(up / time.Second)),
			"uptime_in_days", strconv.Itoa(int(up / (24 * time.Hour))),
		}},
		{"clients", []string{"connected_clients", strconv.Itoa(len(m.clients)), "maxclients", "10000"}},
		{"memory", []string{"used_memory", "1000000", "maxmemory", "0", "maxmemory_policy", "noeviction"}},
		{"persistence", []string{
			"loading", "0", "async_loading", "0", "rdb_last_bgsave_status", "ok",
			"aof_enabled", "0", "aof_last_write_status", "ok",
		}},
		{"replication", []string{
			"role", "master", "slave_read_only", "1", "connected_slaves", "0", "master_failover_state", "no-failover",
			"master_replid", m.run.replID, "master_replid2", strings.Repeat("0", 40),
			"master_repl_offset", "0", "second_repl_offset", "-1", "repl_backlog_active", "0",
		}},
		{"cluster", []string{"cluster_enabled", "0"}},
		{"keyspace", m.keyspace()},
	}
}

// keyspace counts the keys of the databases in use.
func (m *Master) keyspace() []string {
	var fields []string
	for _, n := range m.script.databases {
		db, expires := m.redis.DB(n), 0
		keys := db.Keys()
		for _, k := range keys {
			if db.TTL(k) > 0 {
				expires++
			}
		}
		if len(keys) > 0 {
			fields = append(fields, "db"+strconv.Itoa(n), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", len(keys), expires))
		}
	}
	return fields
}
