package examine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/node"
)

// Without the necessary rights a node can't vote; with fencing or the restart guard TIME is
// necessary as well. Without an optional right no user notices a difference. Without any other
// right the library omits something, or takes longer; the user may have the right to other keys.
var (
	necessary = []string{"set", "get", "del", "exists", "type", "strlen", "pttl", "pexpire", "evalsha", "cluster|slots"}
	optional  = []string{"client|setname", "client|info", "time", "script|load", "pubsub|numsub", "unsubscribe", "mget"}
)

// findings returns the findings that need more than the facts of a handshake.
func (q *Question) findings(node string, e *Diagnosis) []Finding {
	var all []Finding
	needed := slices.Clone(necessary)
	if q.Guard != nil {
		needed = append(needed, "~"+guard.Key)
	}
	if q.Guard != nil || q.Counters != nil {
		needed = append(needed, "time")
	}
	// In the order of the parts that byImportance returns.
	grades := []Grade{Error, Warning, Note}
	informed := !slices.Contains(e.MissingRights, "client|info") && !slices.Contains(e.UnknownCommands, "client|info")
	for i, rights := range byImportance(e.MissingRights, needed, informed) {
		if len(rights) > 0 {
			all = append(all, finding(grades[i], codeRights, "%s does not allow its user %s: ACL SETUSER … %s",
				node, strings.Join(rights, ", "), aclWords(rights)))
		}
	}
	// An unknown command that is only useful is not reported: older servers lack some of them, and
	// the library does without.
	if unknown := byImportance(e.UnknownCommands, needed, informed)[0]; len(unknown) > 0 {
		all = append(all, finding(Error, codeRights, "%s does not know commands that a lock needs: %s: remove its rename-command settings, "+
			"or use a newer server", node, strings.Join(unknown, ", ")))
	}
	// A replica has a fault already, and its settings of durability are not those of the master to
	// be used.
	if e.Role == "master" {
		all = append(append(masterFindings(node, e), all...), durabilityFinding(node, e, q.Guard)...)
	}
	return all
}

// masterFindings returns what is worth noting about a master by what it reports of itself.
func masterFindings(node string, e *Diagnosis) (all []Finding) {
	add := func(g Grade, code, text string) { all = append(all, finding(g, code, "%s %s", node, text)) }
	// A second replication ID exists only after a promotion. Forty zeros stand for none.
	if strings.Trim(e.ReplID2, "0") != "" {
		add(Note, codeHistory, "was a replica after its start: it may lack the last writes that its master acknowledged")
	}
	if e.Eviction != "" && e.Eviction != "noeviction" && e.MaxMemory == 0 {
		add(Note, command.CodeEviction, "would delete keys if maxmemory were set ("+e.Eviction+"): CONFIG SET maxmemory-policy noeviction")
	}
	if e.Eviction == "noeviction" && e.MaxMemory > 0 {
		text := fmt.Sprintf("uses %d of %d bytes of memory, and refuses writes when it is full: CONFIG SET maxmemory to more", e.UsedMemory, e.MaxMemory)
		switch {
		case e.UsedMemory >= e.MaxMemory:
			add(Error, codeMemory, text)
		case e.UsedMemory >= e.MaxMemory-e.MaxMemory/10:
			add(Warning, codeMemory, text)
		}
	}
	if e.Refuses != "" {
		add(Error, codeWrites, "refuses writes ("+e.Refuses+"), so each acquisition fails there: remove that cause")
	}
	// Such a server still votes as long as it accepts writes.
	if e.AOFFails {
		add(Warning, CodePersistence, "can't write its append-only file, and refuses all writes: check its disk")
	}
	if e.SnapshotFails {
		add(Warning, CodePersistence, "could not write its last snapshot, and may refuse all writes: check its disk, "+
			"or CONFIG SET stop-writes-on-bgsave-error no")
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
// necessary if SCRIPT LOAD is missing, because no other way to run a script remains. CLIENT ID is optional if the
// library is informed by CLIENT INFO.
func byImportance(missing, needed []string, informed bool) (parts [3][]string) {
	unscripted := slices.Contains(missing, "eval") && slices.Contains(missing, "script|load")
	// A right can be in one part only. The cases are in order of importance.
	for _, right := range missing {
		switch {
		case slices.Contains(needed, right), unscripted && right == "eval":
			parts[0] = append(parts[0], right)
		case slices.Contains(optional, right), informed && right == "client|id":
			parts[2] = append(parts[2], right)
		default:
			parts[1] = append(parts[1], right)
		}
	}
	return parts
}

// durabilityFinding reports a server that may lose locks in a restart. Such a lock may be granted
// twice (docs/safety.md), unless the restart guard is used.
func durabilityFinding(node string, e *Diagnosis, g *guard.Settings) []Finding {
	grade, cure := Warning, command.Durability(e.Facts)
	if g != nil { // it makes such a restart safe, so it is only worth a note
		grade, cure = Note, fmt.Sprintf("the guard keeps it from voting for %v afterwards", g.Quarantine(node))
	}
	text := ""
	switch {
	case !e.AOF:
		text = command.Forgets + cure
	// INFO shows that the file is kept but not when it is written.
	case !e.Configured:
		grade, text = Note, "keeps an append-only file; only a user with the right to CONFIG GET can see whether it is written "+
			"before a lock is granted (appendfsync always)"
	// With everysec up to a second of grants may be lost.
	case e.Fsync != "always":
		text = "may forget the last locks when it crashes (appendfsync " + e.Fsync + "): " + cure
	case e.UnsyncedRewrites:
		if g == nil {
			cure = "set it to no, or use the restart guard"
		}
		text = "may forget the last locks when it crashes while it rewrites its file (no-appendfsync-on-rewrite yes): " + cure
	default:
		return nil
	}
	return []Finding{finding(grade, CodePersistence, "%s %s", node, text)}
}

// sentinelFindings returns the findings about a node's Sentinels, which have named its master.
func sentinelFindings(node, master string, all []node.SentinelAnswer) []Finding {
	if len(all) == 0 {
		return nil
	}
	var found []Finding
	add := func(g Grade, format string, args ...any) {
		found = append(found, finding(g, codeSentinels, "%s %s", node, fmt.Sprintf(format, args...)))
	}
	// most is the largest number of Sentinels that one of them knows of, itself included.
	agree, most := 0, 0
	for _, v := range all {
		most = max(most, v.Others+1)
		switch {
		case v.Err != "":
			add(Warning, "follows the Sentinel %s, which can't be asked (%s)", v.Address, v.Err)
		case v.Master == "":
			add(Warning, "follows the Sentinel %s, which knows of no such master: add it there with SENTINEL MONITOR", v.Address)
		case v.Master != master:
			add(Warning, "follows the Sentinel %s, which names %s and not %s", v.Address, v.Master, master)
		default:
			agree++
		}
	}
	add(Note, "is %s according to %d of its %d Sentinels; it does not vote while fewer than %d agree", master, agree, len(all), len(all)/2+1)
	// Two clients with different parts of the Sentinels could see different majorities.
	if most > len(all) {
		add(Warning, "follows %d Sentinels, and one of them knows of %d in all: a majority of some is not a majority of all; "+
			"list all of them, the same for every client (SENTINEL RESET if the others are gone for good)", len(all), most)
	}
	if len(all)%2 == 0 {
		add(Warning, "follows %d Sentinels, which tolerate no more failures than %d: add or remove one", len(all), len(all)-1)
	}
	return found
}
