package pool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// oldest is the first major version of Redis whose scripts and replication are what
// the rules count on.
const oldest = 5

// findings are what there is to say of a server, by its facts and the database that
// was asked for (docs/dev/rules.md rule 18). It knows no clock and no network.
func findings(node string, database int, f wire.Facts) []wire.Finding {
	if f.Unread != "" || f.RunID == "" || f.Role == "" && f.Mode != "sentinel" {
		return []wire.Finding{unreadable(node, f)}
	}
	var all []wire.Finding
	add := func(g wire.Grade, code, format string, args ...any) {
		all = append(all, wire.Finding{Grade: g, Code: code, Text: node + " " + fmt.Sprintf(format, args...)})
	}
	roleFindings(add, f)
	if v := major(f.Version); v > 0 && v < oldest {
		add(wire.Error, wire.CodeVersion, "is Redis %s: Redis %d or newer is needed", f.Version, oldest)
	}
	if f.Database != database {
		add(wire.Error, wire.CodeDatabase, "is used on database %d, and %d was asked for: locks of two databases do not exclude "+
			"each other; ask for the one that is meant (in the URL, or by WithDatabase for a wrapped pool)", f.Database, database)
	}
	evictionFindings(add, f)
	persistenceFindings(add, f)
	return all
}

// unreadable: docs/dev/hazards.md H46.
func unreadable(node string, f wire.Facts) wire.Finding {
	text := fmt.Sprintf("%s does not say by INFO what it is: it may be a replica, or another node's server; "+
		"give the address of the master itself", node)
	if f.Unread != "" {
		text = fmt.Sprintf("%s does not answer INFO (%s): it may be a replica, or another node's server; "+
			"give the user the right: ACL SETUSER … +info", node, f.Unread)
	}
	return wire.Finding{Grade: wire.Error, Code: wire.CodeUnreadable, Text: text}
}

type addFunc func(g wire.Grade, code, format string, args ...any)

// roleFindings: docs/dev/hazards.md H35, H36.
func roleFindings(add addFunc, f wire.Facts) {
	switch {
	case f.Mode == "sentinel":
		add(wire.Error, wire.CodeSentinel, "is a Sentinel, which keeps no locks: give the address of a master itself")
	case f.Mode == "cluster":
		add(wire.Error, wire.CodeCluster, "is a member of a Redis Cluster, and has some of its slots: give the whole Cluster as one node "+
			"(redis+cluster://), or take a master of its own (cluster-enabled no)")
	case f.Role != "master" && f.Writable:
		add(wire.Error, wire.CodeReplica, "is a writable replica, whose locks are gone with its next synchronisation: "+
			"give the address of a master, or make it one by REPLICAOF NO ONE")
	case f.Role != "master":
		add(wire.Error, wire.CodeReplica, "is a replica: give the address of a master, or make it one by REPLICAOF NO ONE")
	case strings.Trim(f.ReplID2, "0") != "":
		add(wire.Note, wire.CodeHistory, "has been a replica since it was started: what its master had acknowledged last may be missing")
	}
}

// evictionFindings: docs/dev/hazards.md H43. Locks have a TTL, so that volatile policies evict them first.
func evictionFindings(add addFunc, f wire.Facts) {
	switch {
	case f.Eviction == "" || f.Eviction == "noeviction":
	case f.MaxMemory > 0:
		add(wire.Error, wire.CodeEviction, "deletes keys when its memory is full (%s, maxmemory %d bytes), locks that are held "+
			"among them: CONFIG SET maxmemory-policy noeviction", f.Eviction, f.MaxMemory)
	default:
		add(wire.Note, wire.CodeEviction, "would delete keys if maxmemory were set (%s): CONFIG SET maxmemory-policy noeviction", f.Eviction)
	}
}

func persistenceFindings(add addFunc, f wire.Facts) {
	if f.AOFFails {
		add(wire.Warning, wire.CodePersistence, "can't write its append-only file, and refuses all writes: look at its disk")
	}
	if f.SnapshotFails {
		add(wire.Warning, wire.CodePersistence, "could not write its last snapshot, and may refuse all writes: look at its disk, "+
			"or CONFIG SET stop-writes-on-bgsave-error no")
	}
}

// Without the necessary rights a node can't vote, and with fencing or the guard not
// without TIME. What the silent ones are for nobody misses. Without any other one
// something is not done, or takes longer; keys that are named otherwise may be allowed.
var (
	necessary = []string{"set", "get", "del", "exists", "type", "strlen", "pttl", "pexpire", "evalsha", "cluster|slots"}
	optional  = []string{"client|setname", "client|info", "time", "script|load", "pubsub|numsub", "unsubscribe"}
)

// doctorFindings are findings that take more than facts.
func doctorFindings(node string, e *wire.Diagnosis, r *wire.Request) []wire.Finding {
	var all []wire.Finding
	guarded, fenced := r.NodeSet != nil && r.NodeSet.Guard != nil, len(r.Keys) > 1
	needed := slices.Clone(necessary)
	if guarded {
		needed = append(needed, "~"+wire.MarkerKey)
	}
	if guarded || fenced {
		needed = append(needed, "time")
	}
	grades := []wire.Grade{wire.Error, wire.Warning, wire.Note}
	for i, rights := range byImportance(e.MissingRights, needed) {
		if len(rights) > 0 {
			all = append(all, wire.Finding{Grade: grades[i], Code: wire.CodeRights, Text: fmt.Sprintf(
				"%s does not allow its user %s: ACL SETUSER … %s", node, strings.Join(rights, ", "), aclWords(rights))})
		}
	}
	if unknown := byImportance(e.UnknownCommands, needed)[0]; len(unknown) > 0 {
		all = append(all, wire.Finding{Grade: wire.Error, Code: wire.CodeRights, Text: fmt.Sprintf(
			"%s does not know commands that a lock needs: %s: take away its rename-command, or use a newer server", node, strings.Join(unknown, ", "))})
	}
	if e.Role == "master" {
		all = append(all, durabilityFinding(node, e, guarded)...)
	}
	return all
}

// aclWords are the words of ACL SETUSER that give rights to commands, keys and channels.
func aclWords(rights []string) string {
	words := make([]string, len(rights))
	for i, r := range rights {
		words[i] = r
		if !strings.HasPrefix(r, "&") && !strings.HasPrefix(r, "~") {
			words[i] = "+" + r
		}
	}
	return strings.Join(words, " ")
}

// byImportance parts rights into those that are necessary, those that are missed, and others.
func byImportance(missing, needed []string) (parts [3][]string) {
	unscripted := slices.Contains(missing, "eval") && slices.Contains(missing, "script|load")
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

// durabilityFinding: what a restart forgets may be granted twice (docs/safety.md), but not under
// the restart guard.
func durabilityFinding(node string, e *wire.Diagnosis, guarded bool) []wire.Finding {
	grade, cure := wire.Warning, "set appendonly yes and appendfsync always, or keep it down for the longest TTL before it comes back"
	if guarded {
		grade, cure = wire.Note, "the guard keeps it from voting for its maxTTL then"
	}
	text := ""
	switch {
	case !e.AOF:
		text = "forgets locks when it is restarted: " + cure
	case !e.Configured:
		grade, text = wire.Note, "keeps an append-only file; whether it is written before a lock is granted (appendfsync always), "+
			"only a user with the right to CONFIG GET can see"
	case e.Fsync != "always":
		text = "may forget the last locks when it crashes (appendfsync " + e.Fsync + "): " + cure
	default:
		return nil
	}
	return []wire.Finding{{Grade: grade, Code: wire.CodePersistence, Text: node + " " + text}}
}

// sentinelFindings are what there is to say of a node's Sentinels, which have named its master.
func sentinelFindings(node, master string, all []wire.SentinelAnswer) []wire.Finding {
	if len(all) == 0 {
		return nil
	}
	var found []wire.Finding
	add := func(g wire.Grade, format string, args ...any) {
		found = append(found, wire.Finding{Grade: g, Code: wire.CodeSentinels, Text: node + " " + fmt.Sprintf(format, args...)})
	}
	agree, most := 0, 0
	for _, v := range all {
		most = max(most, v.Others+1)
		switch {
		case v.Err != "":
			add(wire.Warning, "follows the Sentinel %s, which can't be asked (%s)", v.Address, v.Err)
		case v.Master == "":
			add(wire.Warning, "follows the Sentinel %s, which knows of no such master: SENTINEL MONITOR it there", v.Address)
		case v.Master != master:
			add(wire.Warning, "follows the Sentinel %s, which names %s and not %s", v.Address, v.Master, master)
		default:
			agree++
		}
	}
	add(wire.Note, "is %s, as %d of its %d Sentinels say; it does not vote while fewer than %d do", master, agree, len(all), len(all)/2+1)
	if most > len(all) {
		add(wire.Warning, "follows %d Sentinels, and one of them knows of %d in all: a majority of some is none of all; name all of them, the same "+
			"for every client (SENTINEL RESET, where the others are gone for good)", len(all), most)
	}
	if len(all)%2 == 0 {
		add(wire.Warning, "follows %d Sentinels, which tolerate no more failures than %d: take one more, or one fewer", len(all), len(all)-1)
	}
	return found
}

// major is a version's first number; 0 where it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// unfitError is why a server with these findings does not vote; nil when it does.
func unfitError(all []wire.Finding) error {
	var texts []string
	for _, f := range all {
		if f.Grade == wire.Error {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("pool: %w: %s", wire.ErrUnfit, strings.Join(texts, "; "))
}
