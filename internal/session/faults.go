package session

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// oldest is the first major version of Redis whose scripts and replication the rules rely on.
const oldest = 5

// Faults returns what is wrong with a server, by its facts and the configured database
// (docs/dev/rules.md rule 18). It uses no clock and no network. An unreadable server has that one fault
// only: the other facts are missing as well.
func Faults(node string, database int, f command.Facts) []command.Fault {
	if f.Unread != "" || f.RunID == "" || f.Role == "" && f.Mode != "sentinel" {
		return []command.Fault{unreadable(node, f)}
	}
	var all []command.Fault
	add := func(code, format string, args ...any) {
		all = append(all, command.Fault{Code: code, Text: node + " " + fmt.Sprintf(format, args...)})
	}
	// All faults are collected, not only the first one: an operator then fixes everything in one
	// go.
	addRole(add, f)
	// A version that cannot be read is no reason to refuse a server: services may hide it.
	if v := major(f.Version); v > 0 && v < oldest {
		add(command.CodeVersion, "runs Redis %s: use Redis %d or newer", f.Version, oldest)
	}
	// A wrapped pool may select another database than the one it was declared with.
	if f.Database != database {
		add(command.CodeDatabase, "is used on database %d instead of %d: locks of two databases do not exclude each other; "+
			"set the right one in the URL, or by WithDatabase for a wrapped pool", f.Database, database)
	}
	// Locks have a TTL, so volatile policies evict them first (docs/dev/hazards.md H43). A policy is in
	// force only with a limit.
	if f.Eviction != "" && f.Eviction != "noeviction" && f.MaxMemory > 0 {
		add(command.CodeEviction, "deletes keys when its memory is full (%s, maxmemory %d bytes), including "+
			"held locks: CONFIG SET maxmemory-policy noeviction", f.Eviction, f.MaxMemory)
	}
	return all
}

// unreadable returns the fault of a server whose INFO is denied or incomplete
// (docs/dev/hazards.md H46). Such a server may be anything, even a replica.
func unreadable(node string, f command.Facts) command.Fault {
	var missing []string
	if f.RunID == "" {
		missing = append(missing, "run_id")
	}
	if f.Role == "" && f.Mode != "sentinel" {
		missing = append(missing, "role")
	}
	text := fmt.Sprintf("%s does not report %s in INFO, as every Redis does: it may be a replica, or another node's server; "+
		"give the address of the master itself, and in tests use package redlocktest", node, strings.Join(missing, " and "))
	// With an error of the server the cure is a right. Without one the reply lacks what every
	// server reports.
	if f.Unread != "" {
		text = fmt.Sprintf("%s does not answer INFO (%s): it may be a replica, or another node's server; "+
			"give the user the right: ACL SETUSER … +info", node, f.Unread)
	}
	return command.Fault{Code: command.CodeUnreadable, Text: text}
}

type addFunc func(code, format string, args ...any)

// A replica may lack the last locks of its master.
const replicaRemedy = "give the address of a master, or make it one by REPLICAOF NO ONE and keep clients away from it " +
	"for the longest TTL or minimum hold"

// addRole reports a server that is not a standalone master (docs/dev/hazards.md H35, H36). The
// order of the cases matters: a Sentinel has no role, and a member of a Cluster can be a replica,
// for which the address of its master would be the wrong advice.
func addRole(add addFunc, f command.Facts) {
	switch {
	case f.Mode == "sentinel":
		add(command.CodeSentinel, "is a Sentinel, which stores no keys: give the address of a master itself")
	case f.Mode == "cluster":
		add(command.CodeCluster, "is a member of a Redis Cluster, and has only some of its slots: give the whole Cluster as one node "+
			"(redis+cluster://), or use a standalone master (cluster-enabled no)")
	// It accepts writes, so it would vote. Its next synchronisation deletes every key that its
	// master does not have.
	case f.Role != "master" && f.Writable:
		add(command.CodeReplica, "is a writable replica, which loses its locks when it synchronises: "+replicaRemedy)
	case f.Role != "master":
		add(command.CodeReplica, "is a replica: "+replicaRemedy)
	}
}

// major returns the first number of a version, and 0 if it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// Unfit returns why a server with these faults does not vote, and nil if it has none.
func Unfit(all []command.Fault) error {
	if len(all) == 0 {
		return nil
	}
	texts := make([]string, len(all))
	for i, f := range all {
		texts[i] = f.Text
	}
	// One error with all reasons: it becomes the vote of every command until a check finds the
	// server fit.
	return fmt.Errorf("pool: %w: %s", command.ErrUnfit, oneline.List(texts, "; "))
}
