package examine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// The codes of findings, beside those that keep a node from voting.
const (
	codeRights      = "rights"      // commands that the user may not run
	codeUnreachable = "unreachable" // no answer
	codeSentinels   = "sentinels"   // what the node's Sentinels report
	// CodeClock is of clocks that differ.
	CodeClock = "clock"
)

// Without the necessary rights a node can't vote; with fencing or the restart guard TIME is
// necessary as well. Without an optional right no user notices a difference. Without any other
// right the library omits something, or takes longer; the user may have the right to other keys.
var (
	necessary = []string{"set", "get", "del", "exists", "type", "strlen", "pttl", "pexpire", "evalsha", "cluster|slots"}
	optional  = []string{"client|setname", "client|info", "time", "script|load", "pubsub|numsub", "unsubscribe", "mget"}
)

// findings returns the findings that need more than the facts of a handshake.
func (q *Question) findings(node string, e *Diagnosis) []command.Finding {
	var all []command.Finding
	needed := slices.Clone(necessary)
	if q.Guard != nil {
		needed = append(needed, "~"+guard.Key)
	}
	if q.Guard != nil || q.Counters != nil {
		needed = append(needed, "time")
	}
	// In the order of the parts that byImportance returns.
	grades := []command.Grade{command.Error, command.Warning, command.Note}
	for i, rights := range byImportance(e.MissingRights, needed) {
		if len(rights) > 0 {
			all = append(all, command.Finding{Grade: grades[i], Code: codeRights, Text: fmt.Sprintf(
				"%s does not allow its user %s: ACL SETUSER … %s", node, strings.Join(rights, ", "), aclWords(rights))})
		}
	}
	// An unknown command that is only useful is not reported: older servers lack some of them, and
	// the library does without.
	if unknown := byImportance(e.UnknownCommands, needed)[0]; len(unknown) > 0 {
		all = append(all, command.Finding{Grade: command.Error, Code: codeRights, Text: fmt.Sprintf(
			"%s does not know commands that a lock needs: %s: remove its rename-command settings, or use a newer server", node, strings.Join(unknown, ", "))})
	}
	// A replica has an error already, and its settings of durability are not those of the master to
	// be used.
	if e.Role == "master" {
		all = append(all, durabilityFinding(node, e, q.Guard)...)
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
func durabilityFinding(node string, e *Diagnosis, g *guard.Settings) []command.Finding {
	grade, cure := command.Warning, command.Durability(e.Facts)
	if g != nil { // it makes such a restart safe, so it is only worth a note
		grade, cure = command.Note, fmt.Sprintf("the guard keeps it from voting for %v afterwards", g.Quarantine(node))
	}
	text := ""
	switch {
	case !e.AOF:
		text = command.Forgets + cure
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

// sentinelFindings returns the findings about a node's Sentinels, which have named its master.
func sentinelFindings(node, master string, all []door.SentinelAnswer) []command.Finding {
	if len(all) == 0 {
		return nil
	}
	var found []command.Finding
	add := func(g command.Grade, format string, args ...any) {
		found = append(found, command.Finding{Grade: g, Code: codeSentinels, Text: node + " " + fmt.Sprintf(format, args...)})
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
