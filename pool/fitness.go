package pool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
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

// Without the necessary rights a node can't vote; with fencing or the restart guard TIME is
// necessary as well. Without an optional right no user notices a difference. Without any other
// right the library omits something, or takes longer; the user may have the right to other keys.
var (
	necessary = []string{"set", "get", "del", "exists", "type", "strlen", "pttl", "pexpire", "evalsha", "cluster|slots"}
	optional  = []string{"client|setname", "client|info", "time", "script|load", "pubsub|numsub", "unsubscribe", "mget"}
)

// doctorFindings returns the findings that need more than the facts of a handshake.
func doctorFindings(node string, e *command.Diagnosis, r *command.Request) []command.Finding {
	var all []command.Finding
	// With fencing an Examine also names the counters, so it has more than one key.
	var g *guard.Settings
	if r.NodeSet != nil {
		g = r.NodeSet.Guard
	}
	guarded, fenced := g != nil, len(r.Keys) > 1
	needed := slices.Clone(necessary)
	if guarded {
		needed = append(needed, "~"+guard.Key)
	}
	if guarded || fenced {
		needed = append(needed, "time")
	}
	// In the order of the parts that byImportance returns.
	grades := []command.Grade{command.Error, command.Warning, command.Note}
	for i, rights := range byImportance(e.MissingRights, needed) {
		if len(rights) > 0 {
			all = append(all, command.Finding{Grade: grades[i], Code: command.CodeRights, Text: fmt.Sprintf(
				"%s does not allow its user %s: ACL SETUSER … %s", node, strings.Join(rights, ", "), aclWords(rights))})
		}
	}
	// An unknown command that is only useful is not reported: older servers lack some of them, and
	// the library does without.
	if unknown := byImportance(e.UnknownCommands, needed)[0]; len(unknown) > 0 {
		all = append(all, command.Finding{Grade: command.Error, Code: command.CodeRights, Text: fmt.Sprintf(
			"%s does not know commands that a lock needs: %s: remove its rename-command settings, or use a newer server", node, strings.Join(unknown, ", "))})
	}
	// A replica has an error already, and its settings of durability are not those of the master to
	// be used.
	if e.Role == "master" {
		all = append(all, durabilityFinding(node, e, g)...)
	}
	return all
}

// aclWords returns the words of ACL SETUSER that grant rights to commands, keys and channels.
func aclWords(rights []string) string {
	words := make([]string, len(rights))
	for i, r := range rights {
		words[i] = r
		// Channels and keys already have their sign. A command needs a plus.
		if !strings.HasPrefix(r, "&") && !strings.HasPrefix(r, "~") {
			words[i] = "+" + r
		}
	}
	return strings.Join(words, " ")
}

// byImportance divides missing rights into three parts: necessary, useful and optional. EVAL becomes
// necessary if SCRIPT LOAD is missing, because no other way to run a script remains.
func byImportance(missing, needed []string) (parts [3][]string) {
	unscripted := slices.Contains(missing, "eval") && slices.Contains(missing, "script|load")
	// A right can be in one part only. The cases are in order of importance.
	for _, right := range missing {
		switch {
		case slices.Contains(needed, right), unscripted && right == "eval":
			parts[0] = append(parts[0], right)
		case slices.Contains(optional, right):
			parts[2] = append(parts[2], right)
		default:
			parts[1] = append(parts[1], right)
		}
	}
	return parts
}

// durabilityFinding reports a server that may lose locks in a restart. Such a lock may be granted
// twice (docs/safety.md), unless the restart guard is used.
func durabilityFinding(node string, e *command.Diagnosis, g *guard.Settings) []command.Finding {
	grade, cure := command.Warning, "set appendonly yes and appendfsync always, or keep it down for the longest TTL after a crash"
	switch {
	case g != nil:
		// The guard makes such a restart safe, so it is only worth a note.
		grade, cure = command.Note, fmt.Sprintf("the guard keeps it from voting for %v afterwards", g.Quarantine(node))
	case e.Mode != "cluster": // a Cluster cannot have the guard
		cure = "use the restart guard (WithRestartGuard, redlock --guard), or " + cure
	}
	text := ""
	switch {
	case !e.AOF:
		text = "forgets locks when it is restarted: " + cure
	// INFO shows that the file is kept but not when it is written.
	case !e.Configured:
		grade, text = command.Note, "keeps an append-only file; only a user with the right to CONFIG GET can see whether it is written "+
			"before a lock is granted (appendfsync always)"
	// With everysec up to a second of grants may be lost.
	case e.Fsync != "always":
		text = "may forget the last locks when it crashes (appendfsync " + e.Fsync + "): " + cure
	default:
		return nil
	}
	return []command.Finding{{Grade: grade, Code: command.CodePersistence, Text: node + " " + text}}
}

// noteForgetful logs once that a server of the node forgets in a restart what it acknowledged, if a Locker
// without the restart guard uses it. INFO shows whether there is an append-only file, and not when it is
// written: of that only the doctor knows.
func (n *Node) noteForgetful(s *command.NodeSet, f command.Facts) {
	if s.Guard != nil || f.AOF || n.whole.count.forgetful.Swap(true) {
		return
	}
	for _, found := range durabilityFinding(n.label, &command.Diagnosis{Facts: f}, nil) {
		n.whole.log("may forget locks", errors.New(found.Text))
	}
}

// sentinelFindings returns the findings about a node's Sentinels, which have named its master.
func sentinelFindings(node, master string, all []command.SentinelAnswer) []command.Finding {
	if len(all) == 0 {
		return nil
	}
	var found []command.Finding
	add := func(g command.Grade, format string, args ...any) {
		found = append(found, command.Finding{Grade: g, Code: command.CodeSentinels, Text: node + " " + fmt.Sprintf(format, args...)})
	}
	// most is the largest number of Sentinels that one of them knows of, itself included.
	agree, most := 0, 0
	for _, v := range all {
		most = max(most, v.Others+1)
		switch {
		case v.Err != "":
			add(command.Warning, "follows the Sentinel %s, which can't be asked (%s)", v.Address, v.Err)
		case v.Master == "":
			add(command.Warning, "follows the Sentinel %s, which knows of no such master: add it there with SENTINEL MONITOR", v.Address)
		case v.Master != master:
			add(command.Warning, "follows the Sentinel %s, which names %s and not %s", v.Address, v.Master, master)
		default:
			agree++
		}
	}
	add(command.Note, "is %s according to %d of its %d Sentinels; it does not vote while fewer than %d agree", master, agree, len(all), len(all)/2+1)
	// Two clients with different parts of the Sentinels could see different majorities.
	if most > len(all) {
		add(command.Warning, "follows %d Sentinels, and one of them knows of %d in all: a majority of some is not a majority of all; "+
			"list all of them, the same for every client (SENTINEL RESET if the others are gone for good)", len(all), most)
	}
	if len(all)%2 == 0 {
		add(command.Warning, "follows %d Sentinels, which tolerate no more failures than %d: add or remove one", len(all), len(all)-1)
	}
	return found
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
