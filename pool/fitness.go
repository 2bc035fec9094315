package pool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// oldest is the first major version of Redis whose scripts and replication the rules rely on.
const oldest = 5

// findings returns what is wrong with a server, or worth noting, by its facts and the configured
// database (docs/dev/rules.md rule 18). It uses no clock and no network. An unreadable server has
// that one finding only: the other facts are missing as well.
func findings(node string, database int, f command.Facts) []command.Finding {
	if f.Unread != "" || f.RunID == "" || f.Role == "" && f.Mode != "sentinel" {
		return []command.Finding{unreadable(node, f)}
	}
	var all []command.Finding
	add := func(g command.Grade, code, format string, args ...any) {
		all = append(all, command.Finding{Grade: g, Code: code, Text: node + " " + fmt.Sprintf(format, args...)})
	}
	// All findings are collected, not only the first one: an operator then fixes everything in one
	// go.
	roleFindings(add, f)
	// A version that cannot be read is no reason to refuse a server: services may hide it.
	if v := major(f.Version); v > 0 && v < oldest {
		add(command.Error, command.CodeVersion, "runs Redis %s: use Redis %d or newer", f.Version, oldest)
	}
	// A wrapped pool may select another database than the one it was declared with.
	if f.Database != database {
		add(command.Error, command.CodeDatabase, "is used on database %d instead of %d: locks of two databases do not exclude each other; "+
			"set the right one in the URL, or by WithDatabase for a wrapped pool", f.Database, database)
	}
	evictionFindings(add, f)
	persistenceFindings(add, f)
	return all
}

// unreadable returns the finding about a server whose INFO is denied or incomplete
// (docs/dev/hazards.md H46). It is an error: such a server may be anything, even a replica.
func unreadable(node string, f command.Facts) command.Finding {
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
	return command.Finding{Grade: command.Error, Code: command.CodeUnreadable, Text: text}
}

type addFunc func(g command.Grade, code, format string, args ...any)

// roleFindings reports a server that is not a standalone master (docs/dev/hazards.md H35, H36). The
// order of the cases matters: a Sentinel has no role, and a member of a Cluster can be a replica,
// for which the address of its master would be the wrong advice.
func roleFindings(add addFunc, f command.Facts) {
	switch {
	case f.Mode == "sentinel":
		add(command.Error, command.CodeSentinel, "is a Sentinel, which stores no keys: give the address of a master itself")
	case f.Mode == "cluster":
		add(command.Error, command.CodeCluster, "is a member of a Redis Cluster, and has only some of its slots: give the whole Cluster as one node "+
			"(redis+cluster://), or use a standalone master (cluster-enabled no)")
	// It accepts writes, so it would vote. Its next synchronisation deletes every key that its
	// master does not have.
	case f.Role != "master" && f.Writable:
		add(command.Error, command.CodeReplica, "is a writable replica, which loses its locks when it synchronises: "+
			"give the address of a master, or make it one by REPLICAOF NO ONE")
	case f.Role != "master":
		add(command.Error, command.CodeReplica, "is a replica: give the address of a master, or make it one by REPLICAOF NO ONE")
	// A second replication ID exists only after a promotion. Forty zeros stand for none.
	case strings.Trim(f.ReplID2, "0") != "":
		add(command.Note, command.CodeHistory, "was a replica after its start: it may lack the last writes that its master acknowledged")
	}
}

// evictionFindings reports a policy that deletes keys (docs/dev/hazards.md H43). Locks have a TTL, so
// volatile policies evict them first. Without maxmemory nothing is evicted, which is only a note.
func evictionFindings(add addFunc, f command.Facts) {
	switch {
	case f.Eviction == "" || f.Eviction == "noeviction":
	// The policy is in force only with a limit.
	case f.MaxMemory > 0:
		add(command.Error, command.CodeEviction, "deletes keys when its memory is full (%s, maxmemory %d bytes), including "+
			"held locks: CONFIG SET maxmemory-policy noeviction", f.Eviction, f.MaxMemory)
	default:
		add(command.Note, command.CodeEviction, "would delete keys if maxmemory were set (%s): CONFIG SET maxmemory-policy noeviction", f.Eviction)
	}
}

// persistenceFindings reports failed writes to disk. They are warnings: the server still votes as
// long as it accepts writes.
func persistenceFindings(add addFunc, f command.Facts) {
	if f.AOFFails {
		add(command.Warning, command.CodePersistence, "can't write its append-only file, and refuses all writes: check its disk")
	}
	if f.SnapshotFails {
		add(command.Warning, command.CodePersistence, "could not write its last snapshot, and may refuse all writes: check its disk, "+
			"or CONFIG SET stop-writes-on-bgsave-error no")
	}
}

// noteForgetful logs once that a server of the node forgets in a restart what it acknowledged, if a Locker
// without the restart guard uses it. INFO shows whether there is an append-only file, and not when it is
// written: of that only the doctor knows.
func (n *Node) noteForgetful(s *command.NodeSet, f command.Facts) {
	if s.Guard == nil && !f.AOF && !n.whole.count.forgetful.Swap(true) {
		n.whole.log("may forget locks", errors.New(n.label+" "+command.Forgets+command.Durability(f)))
	}
}

// major returns the first number of a version, and 0 if it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// unfitError returns why a server with these findings does not vote, and nil if it votes. Only
// findings of grade Error count.
func unfitError(all []command.Finding) error {
	var texts []string
	for _, f := range all {
		if f.Grade == command.Error {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	// One error with all reasons: it becomes the vote of every command until a check finds the
	// server fit.
	return fmt.Errorf("pool: %w: %s", command.ErrUnfit, oneline.List(texts, "; "))
}
