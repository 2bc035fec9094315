package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// slotMap knows which master of a Redis Cluster has which slot, and where each unanswered acquire is. So it says
// where a command goes (docs/dev/rules.md rules 6 and 30). A master is its address.
//
// It is told what happens, and answers what has to be done: the cluster does it. Safety does not depend on the
// slots, because a master refuses those that it does not own. It depends on where the acquires are.
type slotMap struct {
	keep     time.Duration      // how long a master stays that has lost its slots
	members  map[string]*member // by address: the masters, and those that were masters recently
	owners   [command.Slots]*member
	acquires map[string]*member // where each unanswered acquire is, by token
	hint     string             // the target of the last MOVED, which knows the newest map
	gap      string             // why the map has slots without a master, if it says why
}

// member is a master, or was one recently.
type member struct {
	address  string
	namedBy  string        // who named the address last
	slotless bool          // a map has left it out, and nothing has said since that it has a slot
	since    clock.Instant // when that map came, or an ASK after it
}

func newSlotMap(keep time.Duration) slotMap {
	return slotMap{keep: keep, members: make(map[string]*member), acquires: make(map[string]*member)}
}

// mapped is told the slot map that a member answered. It returns the masters that are new, and those that have to
// be retired: they have had no slot for too long, or there are too many.
func (m *slotMap) mapped(all []slotRange, by string, now clock.Instant) (added, gone []string) {
	// The map replaces the old one as a whole: a slot that it does not name has no owner.
	m.owners, m.hint, m.gap = [command.Slots]*member{}, "", ""
	for _, at := range m.members {
		if !at.slotless {
			at.slotless, at.since = true, now
		}
	}
	for _, r := range all {
		if gap := gapOf(r.address); gap != "" {
			m.gap = by + ": " + gap
			continue
		}
		if m.members[r.address] == nil {
			added = append(added, r.address)
		}
		at := m.member(r.address, by)
		at.slotless, at.namedBy = false, by
		for slot := r.first; slot <= r.last; slot++ {
			m.owners[slot] = at
		}
	}
	for _, address := range slices.Sorted(maps.Keys(m.members)) {
		at := m.members[address]
		// A master that lost its slots a moment ago may still have to answer undos, and often gets slots back. It
		// stays for a while.
		if at.slotless && (now.Sub(at.since) >= m.keep || len(m.members) > maxShards) {
			// Undos of its acquires go to the new owner, because it takes no commands from here on.
			maps.DeleteFunc(m.acquires, func(_ string, where *member) bool { return where == at })
			delete(m.members, address)
			gone = append(gone, address)
		}
	}
	return added, gone
}

// member returns the entry of an address, and makes it if necessary.
func (m *slotMap) member(address, namedBy string) *member {
	at := m.members[address]
	if at == nil {
		at = &member{address: address, namedBy: namedBy}
		m.members[address] = at
	}
	return at
}

// moved is told that a member answered MOVED, which is final for this slot. It is newer than the map.
func (m *slotMap) moved(slot int, to, by string) {
	at := m.member(to, by)
	m.owners[slot], at.slotless, m.hint = at, false, to
}

// asked is told that a member answered ASK: one command goes elsewhere, and the slot stays where it is.
func (m *slotMap) asked(to, by string, now clock.Instant) {
	m.member(to, by).since = now // it is still in use
}

// sent is told which member a command goes to, before it is queued there. Only an acquire is remembered: its undo,
// submitted at any time later, goes to the same member.
func (m *slotMap) sent(r *command.Request, to string) {
	if r.Op.Creates() {
		m.acquires[r.Token()] = m.members[to]
	}
}

// answered is told that the acquire of a token is over. A later command of the token may follow the map.
func (m *slotMap) answered(token string) { delete(m.acquires, token) }

// target returns the member that a command has to go to, or "" if none is known. An unanswered acquire may still be
// executed where it was sent, or be redirected from there. Its undo therefore follows it there, whatever the map
// says by now (docs/dev/rules.md rule 6).
func (m *slotMap) target(r *command.Request) string {
	if at := m.acquires[r.Token()]; at != nil && !r.Op.Creates() {
		return at.address
	}
	// Pings go to all masters, so they have no owner.
	if len(r.Keys) == 0 {
		return ""
	}
	return m.owner(r.Keys[0])
}

// owner returns the master that has the slot of a key, or "".
func (m *slotMap) owner(key string) string {
	if at := m.owners[command.Slot(key)]; at != nil {
		return at.address
	}
	return ""
}

// masters returns the masters with slots, and the number of slots without one.
func (m *slotMap) masters() (all []string, unserved int) {
	seen := make(map[*member]bool, len(m.members))
	for _, at := range m.owners {
		switch {
		// No master has announced the slot, or the map left it out.
		case at == nil:
			unserved++
		case !seen[at]:
			seen[at] = true
			all = append(all, at.address)
		}
	}
	// The order of the slots changes with every reshard. The order of the addresses does not, so the reports of two
	// runs are comparable.
	slices.Sort(all)
	return all, unserved
}

// whyUnserved returns why slots have no master, and what to do.
func (m *slotMap) whyUnserved() string {
	if m.gap != "" {
		return m.gap
	}
	return "bring their masters back, or CLUSTER ADDSLOTS"
}

// isMaster reports whether a member has slots, as far as is known: an ASK may have named it since the last map.
func (m *slotMap) isMaster(address string) bool {
	at := m.members[address]
	return at != nil && !at.slotless
}

// namedBy returns who named an address last, or "" if it is none of the members.
func (m *slotMap) namedBy(address string) string {
	if at := m.members[address]; at != nil {
		return at.namedBy
	}
	return ""
}

// hasRoomFor reports whether a redirect to an address may be followed: a Cluster could name ever more of them.
func (m *slotMap) hasRoomFor(address string) bool {
	return m.members[address] != nil || len(m.members) < maxShards
}

// maxCandidates bounds the masters that are queried in one round.
const maxCandidates = 16

// candidates returns the members to query for the map, in this order: the target of the last MOVED, some of the
// masters, and the addresses of the configuration. perm returns a random order of n. The number of masters is
// bounded, so masters of a wrong map do not keep the configured addresses from being queried.
func (m *slotMap) candidates(configured []string, perm func(n int) []int) (all []string) {
	add := func(address string) {
		if address != "" && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	// The target of a redirect knows the newest map.
	add(m.hint)
	// All clients would otherwise query the same member, and a bad member would come first each time.
	known := slices.Sorted(maps.Keys(m.members))
	for _, i := range perm(len(known))[:min(len(known), maxCandidates)] {
		add(known[i])
	}
	// The configured addresses come last but always: they find the Cluster again after all members have moved.
	for _, address := range configured {
		add(address)
	}
	return all
}
