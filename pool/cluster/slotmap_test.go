package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/nodetest"
)

const (
	keptFor  = 5 * time.Second
	lastSlot = command.Slots - 1
	fooSlot  = 12182
)

// docs/dev/rules.md rule 6. Each row is an event, and then where commands for the key foo go, and the masters.
func TestACommandGoesToTheMasterOfItsSlotAndAnUndoBehindItsAcquire(t *testing.T) {
	m, now := newSlotMap(keptFor), clock.Instant(0)
	acquire, undo, other := nodetest.Acquiring("T", nodetest.LongTTL, "foo").Request, nodetest.Releasing("T", "foo").Request, nodetest.Extending("U", nodetest.LongTTL, "foo").Request
	mapped := func(all ...slotRange) { m.mapped(all, "a", now) }
	require.Equal(t, fooSlot, command.Slot("foo"))
	for _, row := range []struct {
		after                string
		event                func()
		acquire, undo, other string
		masters              string
	}{
		{"nothing", func() {}, "", "", "", ""},
		{"a map", func() { mapped(slotRange{0, 9999, "a"}, slotRange{10000, lastSlot, "b"}) }, "b", "b", "b", "a b"},
		{"an undo is sent", func() { m.sent(undo, "a") }, "b", "b", "b", "a b"},
		{"the acquire is sent", func() { m.sent(acquire, "b") }, "b", "b", "b", "a b"},
		{"all slots have moved", func() { mapped(slotRange{0, lastSlot, "a"}) }, "a", "b", "a", "a"},
		{"MOVED to c", func() { m.moved(fooSlot, "c", "b"); m.sent(acquire, "c") }, "c", "c", "c", "a c"},
		{"ASK to d", func() { m.asked("d", "c", now); m.sent(acquire, "d") }, "c", "d", "c", "a c"},
		{"MOVED of another command", func() { m.moved(fooSlot, "e", "c"); m.sent(other, "e") }, "e", "d", "e", "a e"},
		{"another map", func() { mapped(slotRange{0, lastSlot, "b"}) }, "b", "d", "b", "b"},
		{"no master has the slot", func() { mapped(slotRange{0, 9999, "a"}) }, "", "d", "", "a"},
		{"the acquire is answered", func() { m.answered("T") }, "", "", "", "a"},
		{"another acquire is sent to any master", func() { m.sent(acquire, "e") }, "", "e", "", "a"},
	} {
		row.event()
		masters, _ := m.masters()
		require.Equal(t, []string{row.acquire, row.undo, row.other, row.masters},
			[]string{m.target(acquire), m.target(undo), m.target(other), strings.Join(masters, " ")}, row.after)
		require.Equal(t, row.other, m.owner("{foo}bar"), row.after)
		require.Empty(t, m.target(nodetest.Pinging().Request), "it goes to all masters")
	}
}

// The connections of a master that lost its slots a moment ago are still needed. Those of others would stay forever.
func TestAMasterThatHasLostItsSlotsIsKeptForAWhile(t *testing.T) {
	m, began := newSlotMap(keptFor), clock.Instant(0)
	mapped := func(addresses string) func(clock.Instant) string {
		var all []slotRange
		for i, address := range strings.Fields(addresses) {
			all = append(all, slotRange{i, i, address})
		}
		return func(now clock.Instant) string {
			added, gone := m.mapped(all, "a", now)
			return fmt.Sprint("new ", added, ", gone ", gone)
		}
	}
	moved := func(clock.Instant) string { m.moved(9, "c", "d"); return "" }
	asked := func(now clock.Instant) string { m.asked("b", "d", now); return "" }
	for _, row := range []struct {
		after           time.Duration
		event           func(now clock.Instant) string
		answer, masters string // masters: those that have slots, as far as is known
	}{
		{0, mapped("a b c d"), "new [a b c d], gone []", "a b c d"},
		{time.Second, mapped("d"), "new [], gone []", "d"},
		{2 * time.Second, asked, "", "d"}, // b is used, and keeps its connection longer
		{3 * time.Second, moved, "", "c d"},
		{6*time.Second - 1, mapped("d"), "new [], gone []", "d"},
		{6 * time.Second, mapped("d"), "new [], gone [a]", "d"},
		{7 * time.Second, mapped("a d"), "new [a], gone [b]", "a d"},
		{11*time.Second - 1, mapped("c"), "new [], gone []", "c"},
		{time.Minute, mapped("c"), "new [], gone [a d]", "c"},
	} {
		require.Equal(t, row.answer, row.event(began.Add(row.after)), row.after)
		masters := slices.DeleteFunc(strings.Fields("a b c d"), func(a string) bool { return !m.isMaster(a) })
		require.Equal(t, row.masters, strings.Join(masters, " "), row.after)
	}
}

// docs/dev/rules.md rule 6: an undo would otherwise go to a master that takes no commands, and another one would not
// go behind its acquire.
func TestOnlyTheAcquiresOfARetiredMasterAreForgotten(t *testing.T) {
	m, now := newSlotMap(keptFor), clock.Instant(0)
	m.mapped([]slotRange{{0, 9999, "a"}, {10000, lastSlot, "b"}}, "a", now)
	m.sent(nodetest.Acquiring("T", nodetest.LongTTL, "foo").Request, "b")
	m.asked("c", "b", now)
	m.sent(nodetest.Acquiring("U", nodetest.LongTTL, "foo").Request, "c")
	m.mapped([]slotRange{{0, lastSlot, "a"}}, "a", now)
	m.asked("c", "a", now.Add(1)) // it stays a moment longer
	_, gone := m.mapped([]slotRange{{0, lastSlot, "a"}}, "a", now.Add(keptFor))
	require.Equal(t, []string{"b"}, gone)
	require.Equal(t, "a", m.target(nodetest.Releasing("T", "foo").Request))
	require.Equal(t, "c", m.target(nodetest.Releasing("U", "foo").Request))
}

// hosts returns a map of so many masters, each with one slot.
func hosts(t *testing.T, masters int, host string) []slotRange {
	t.Helper()
	all, err := parseSlots(mapOf(masters, host), nil, "me:7")
	require.NoError(t, err)
	return all
}

// docs/dev/rules.md rule 30: each map may name other masters, and each redirect one more.
func TestASlotMapHasABoundedNumberOfMembers(t *testing.T) {
	m, now := newSlotMap(keptFor), clock.Instant(0)
	for _, row := range []struct {
		masters              int
		host                 string
		added, gone, members int
	}{
		{maxShards - 1, "h", maxShards - 1, 0, maxShards - 1},
		{3, "i", 3, 2, maxShards},
		{maxShards, "j", maxShards, maxShards, maxShards},
		{3, "j", 0, 0, maxShards},
	} {
		added, gone := m.mapped(hosts(t, row.masters, row.host), "a", now)
		require.Equal(t, []int{row.added, row.gone, row.members}, []int{len(added), len(gone), len(m.members)}, row.host)
	}
	require.True(t, m.hasRoomFor("j1023:1"))
	require.False(t, m.hasRoomFor("new:1"))
	m.mapped(hosts(t, 3, "j"), "a", now.Add(keptFor))
	require.True(t, m.hasRoomFor("new:1"))
}

func TestSlotsWithoutAMasterAreCountedAndExplained(t *testing.T) {
	m := newSlotMap(keptFor)
	for _, row := range []struct {
		all      []slotRange
		unserved int
		why      string
	}{
		{[]slotRange{{0, lastSlot, "a"}}, 0, "bring their masters back"},
		{[]slotRange{{0, 9, "a"}, {10, 19, noHost}, {20, lastSlot, "b"}}, 10, `c: the slot map names a master by the host "?"`},
		{[]slotRange{{0, 9, "a"}, {10, 19, noPort}, {20, lastSlot, "b"}}, 10, "c: the slot map names a master by the port 0"},
		{[]slotRange{{0, 99, "a"}}, command.Slots - 100, "bring their masters back"},
	} {
		m.mapped(row.all, "c", 0)
		_, unserved := m.masters()
		require.Equal(t, row.unserved, unserved)
		require.Contains(t, m.whyUnserved(), row.why)
	}
}

func TestWhoNamedAMemberLastIsKnown(t *testing.T) {
	m, now := newSlotMap(keptFor), clock.Instant(0)
	m.mapped([]slotRange{{0, 9, "b"}}, "a", now)
	m.moved(9, "c", "b")
	m.asked("d", "c", now)
	m.moved(9, "b", "d")
	named := func() string { return m.namedBy("a") + m.namedBy("b") + m.namedBy("c") + m.namedBy("d") }
	require.Equal(t, "abc", named())
	m.mapped([]slotRange{{0, 9, "b"}, {10, 19, "c"}}, "d", now)
	require.Equal(t, "ddc", named())
}

// A map may name a thousand dead masters. Those of the configuration must still be queried.
func TestTheCandidatesBeginWithTheLastRedirectAndEndWithTheConfiguration(t *testing.T) {
	backwards := func(n int) (all []int) {
		for i := range n {
			all = append(all, n-1-i)
		}
		return all
	}
	m, now := newSlotMap(keptFor), clock.Instant(0)
	require.Equal(t, []string{"y", "z"}, m.candidates([]string{"y", "z"}, backwards))
	m.mapped([]slotRange{{0, 0, "a"}, {1, 1, "b"}, {2, 2, "z"}}, "a", now)
	require.Equal(t, []string{"z", "b", "a", "y"}, m.candidates([]string{"y", "z"}, backwards))
	m.moved(7, "a", "b")
	require.Equal(t, []string{"a", "z", "b", "y"}, m.candidates([]string{"y", "z"}, backwards))
	m.asked("c", "b", now)
	require.Equal(t, []string{"a", "z", "c", "b", "y"}, m.candidates([]string{"y", "z"}, backwards))
	m.mapped(hosts(t, maxShards, "h"), "a", now)
	all := m.candidates([]string{"y", "z"}, backwards)
	require.Equal(t, []string{"h9:1", "h99:1", "h999:1"}, all[:3], "by their names, and a map is newer than MOVED")
	require.Equal(t, []string{"y", "z"}, all[maxCandidates:])
}

// slotModel is a slotMap that a reader can check: of each slot its master, of each unanswered acquire where it is, and
// of each member who named it, whether it has lost its slots, and when that was or an ASK.
type slotModel struct {
	owners  [command.Slots]string
	tokens  map[string]string
	members map[string]*modelMember
}

type modelMember struct {
	by   string
	idle bool
	last clock.Instant
}

// redirected gives a member that the map does not have its entry.
func (m *slotModel) redirected(to, by string) *modelMember {
	if m.members[to] == nil {
		m.members[to] = &modelMember{by: by}
	}
	return m.members[to]
}

// mapped gives each quarter of the slots to a master, or to none that a client can use.
func (m *slotModel) mapped(quarters [4]string, by string, now clock.Instant) (added, gone []string) {
	m.owners = [command.Slots]string{}
	for slot := range m.owners {
		if address := quarters[slot*4/command.Slots]; gapOf(address) == "" {
			m.owners[slot] = address
		}
	}
	for _, address := range []string{"a", "b", "c", "d"} {
		named, one := slices.Contains(quarters[:], address), m.members[address]
		switch {
		case named:
			if m.members[address] = (&modelMember{by: by}); one == nil {
				added = append(added, address)
			}
		case one == nil:
		case !one.idle:
			one.idle, one.last = true, now
		case now.Sub(one.last) >= keptFor:
			delete(m.members, address)
			maps.DeleteFunc(m.tokens, func(_, at string) bool { return at == address })
			gone = append(gone, address)
		}
	}
	return added, gone
}

func (m *slotModel) masters() (all []string, unserved int) {
	set := make(map[string]bool)
	for _, address := range m.owners {
		if address == "" {
			unserved++
		} else {
			set[address] = true
		}
	}
	return slices.Sorted(maps.Keys(set)), unserved
}

// Maps, redirects and answers come in any order. An undo always goes where its unanswered acquire was sent, unless that
// master was retired.
func FuzzSlotMap(f *testing.F) {
	for seed := range byte(20) {
		events := make([]byte, 100)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(events) // it returns no error
		f.Add(events)
	}
	keys := []string{"bar", "orders", "foo", "x"}
	f.Fuzz(func(t *testing.T, events []byte) {
		next := func(n int) int {
			if len(events) == 0 {
				return 0
			}
			b := events[0]
			events = events[1:]
			return int(b) % n
		}
		address := func() string { return string(rune('a' + next(4))) }
		m, now := newSlotMap(keptFor), clock.Instant(0)
		model := slotModel{tokens: make(map[string]string), members: make(map[string]*modelMember)}
		for n := 0; n < 40 && len(events) > 0; n++ {
			event, i := next(6), next(8) // each token has one key
			token, key := fmt.Sprint("T", i), keys[i%4]
			acquire := nodetest.Acquiring(token, nodetest.LongTTL, key).Request
			at, pending := model.tokens[token]
			switch {
			case event == 0:
				var quarters [4]string
				var all []slotRange
				for q := range quarters {
					quarters[q] = []string{"", noHost, "a", "b", "c", "d"}[next(6)]
					if quarters[q] != "" {
						all = append(all, slotRange{q * command.Slots / 4, (q+1)*command.Slots/4 - 1, quarters[q]})
					}
				}
				by := address()
				added, gone := m.mapped(all, by, now)
				wantAdded, wantGone := model.mapped(quarters, by, now)
				require.ElementsMatch(t, wantAdded, added)
				require.Equal(t, wantGone, gone)
			case event == 1 && !pending && len(model.members) > 0: // without an owner it goes to any member
				to := m.target(acquire)
				if to == "" {
					to = slices.Min(slices.Collect(maps.Keys(model.members)))
				}
				m.sent(acquire, to)
				model.tokens[token] = to
			case event == 2:
				m.answered(token)
				delete(model.tokens, token)
			case (event == 3 || event == 4) && pending: // the acquire is redirected
				to := address()
				one := model.redirected(to, at)
				if event == 3 {
					m.moved(command.Slot(key), to, at)
					model.owners[command.Slot(key)], one.idle = to, false
				} else {
					m.asked(to, at, now)
					one.last = now
				}
				m.sent(acquire, to)
				model.tokens[token] = to
			case event == 3: // another command is redirected
				to, by := address(), address()
				m.moved(command.Slot(key), to, by)
				m.sent(nodetest.Releasing(token, key).Request, to)
				model.owners[command.Slot(key)], model.redirected(to, by).idle = to, false
			case event == 5:
				now = now.Add(time.Duration(i) * time.Second)
			}

			for i := range 8 {
				token, key := fmt.Sprint("T", i), keys[i%4]
				owner := model.owners[command.Slot(key)]
				require.Equal(t, owner, m.target(nodetest.Acquiring(token, nodetest.LongTTL, key).Request), "the acquire of %s", token)
				if at, pending := model.tokens[token]; pending {
					owner = at
				}
				require.Equal(t, owner, m.target(nodetest.Releasing(token, key).Request), "the undo of %s", token)
			}
			for _, address := range []string{"a", "b", "c", "d"} {
				one := model.members[address]
				require.Equal(t, one != nil && !one.idle, m.isMaster(address), address)
				if one != nil {
					require.Equal(t, one.by, m.namedBy(address), address)
				}
			}
			require.Len(t, m.members, len(model.members))
		}
		wantMasters, wantUnserved := model.masters()
		masters, unserved := m.masters()
		require.Equal(t, wantMasters, masters)
		require.Equal(t, wantUnserved, unserved)
	})
}
