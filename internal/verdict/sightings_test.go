package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// keyOf is a key with a remaining time.
func keyOf(value string, ttl time.Duration) command.KeyState {
	return command.KeyState{Value: value, TTL: ttl}
}

// nodeState is what is known of a node.
type nodeState struct {
	keys []command.KeyState
	Outage
}

// on is what is known of a node with these keys.
func on(keys ...command.KeyState) nodeState { return nodeState{keys: keys} }

// with adds what is known of the nodes.
func (f Failure) with(nodes ...nodeState) Failure {
	for _, n := range nodes {
		f.Keys, f.Outages = append(f.Keys, n.keys), append(f.Outages, n.Outage)
	}
	return f
}

// Each row is a failed attempt on three nodes, seen at once and, with the same keys, longer ago than a contender may
// keep them.
func TestWhyAnAttemptFailed(t *testing.T) {
	const longest = time.Second
	she, he := command.NewToken("she"), command.NewToken("he")
	minute := time.Minute
	nothing, down := on(command.KeyState{}), nodeState{Outage: Outage{Failed: true, Left: NoExpiry}}
	quarantined := nodeState{Outage: Outage{Failed: true, Left: 10 * time.Second}}
	type result struct {
		why    Why
		stuck  bool
		freeIn time.Duration
	}
	split := result{why: Split}
	for what, c := range map[string]struct {
		nodes           [3]nodeState
		refused, failed int
		foreign         bool
		first, later    result
	}{
		"one token on all nodes": {
			nodes: [3]nodeState{on(keyOf(she, 3*minute)), on(keyOf(she, 2*minute)), on(keyOf(she, minute))}, refused: 3,
			first: result{Held, true, 2 * minute}, later: result{Held, true, 2 * minute},
		},
		"one token on a majority, and a node that is down": {
			nodes: [3]nodeState{on(keyOf(she, minute)), on(keyOf(she, minute)), down}, refused: 2, failed: 1,
			first: result{Held, true, minute}, later: result{Held, true, minute},
		},
		"a token that never expires": {
			nodes: [3]nodeState{on(keyOf(she, -1)), on(keyOf(she, -1)), nothing}, refused: 2,
			first: result{Held, true, -1}, later: result{Held, true, -1},
		},
		"two contenders, or a holder that crashed": {
			nodes: [3]nodeState{on(keyOf(she, 3*minute)), on(keyOf(he, minute)), nothing}, refused: 2,
			first: split, later: result{Held, true, minute},
		},
		"a key on one node": {
			nodes: [3]nodeState{on(keyOf(she, minute)), nothing, nothing}, refused: 1,
			first: split, later: split,
		},
		"a key on one node, and a quarantine": {
			nodes: [3]nodeState{on(keyOf(she, minute)), quarantined, nothing}, refused: 1, failed: 1,
			first: split, later: result{Split, true, 10 * time.Second},
		},
		"a key on one node, and one that is down": {
			nodes: [3]nodeState{on(keyOf(she, minute)), down, nothing}, refused: 1, failed: 1,
			first: split, later: result{Split, true, minute},
		},
		"two nodes that are down": {
			nodes: [3]nodeState{nothing, down, down}, failed: 2,
			first: result{Fault, true, -1}, later: result{Fault, true, -1},
		},
		"keys that are no locks": {
			nodes:   [3]nodeState{on(command.KeyState{ForeignType: "list", TTL: -1}), on(command.KeyState{ForeignType: "list", TTL: -1}), nothing},
			refused: 2, foreign: true,
			first: result{Held, true, -1}, later: result{Held, true, -1},
		},
	} {
		var seen Sightings
		f := Failure{Names: 1, Need: 2, Refused: c.refused, Failed: c.failed, Foreign: c.foreign}.with(c.nodes[:]...)
		for i, want := range []result{c.first, c.later} {
			got := seen.Explain(clock.Instant(i)*clock.Instant(2*longest)+1, longest, f)
			require.Equal(t, want, result{got.Why, got.Stuck, got.FreeIn}, "%s, at look %d", what, i)
		}
	}
}

// Otherwise a waiter would attempt again when the first name expires, or would not poll for one that is not of this library.
func TestTheNameThatIsHeldLongestCounts(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		keys := []command.KeyState{keyOf(command.NewToken(""), time.Minute), keyOf("another library's", time.Second)}
		if reversed {
			keys[0], keys[1] = keys[1], keys[0]
		}
		var seen Sightings
		c := seen.Explain(1, time.Second, Failure{Names: 2, Need: 2, Refused: 2}.with(on(keys...), on(keys...)))
		require.Equal(t, Held, c.Why)
		require.True(t, c.Stuck)
		require.Equal(t, time.Minute, c.FreeIn)
		require.True(t, c.Foreign)
	}
}

// Otherwise a waiter would attempt in vain as soon as the first name expires, and then take the second
// one's holder for a contender with a split vote.
func TestTheKeyThatBlocksANodeForTheLongestCounts(t *testing.T) {
	const limit = time.Second
	inOrder := func(keys []command.KeyState, reversed bool) nodeState {
		if reversed {
			keys[0], keys[1] = keys[1], keys[0]
		}
		return on(keys...)
	}
	for _, reversed := range []bool{false, true} {
		var seen Sightings
		start := clock.Instant(time.Hour)
		look := func(after time.Duration, first, second [2]command.KeyState) (time.Duration, bool, time.Duration) {
			c := seen.Explain(start.Add(after), limit, Failure{Names: 2, Need: 2}.with(
				inOrder(first[:], reversed), inOrder(second[:], reversed), on(command.KeyState{}, command.KeyState{})))
			return c.FreeIn, c.Stuck, c.Blocked
		}
		long := [2]command.KeyState{{}, keyOf("other", time.Hour)}
		both := [2]command.KeyState{keyOf("short", time.Minute), keyOf("long", time.Hour)}

		_, stuck, blocked := look(0, both, long)
		require.False(t, stuck, "they may be contenders")
		require.Zero(t, blocked)

		free, stuck, blocked := look(2*limit, both, long)
		require.True(t, stuck)
		require.Equal(t, time.Hour, free)
		require.Equal(t, 2*limit, blocked)

		both[0] = command.KeyState{}
		free, stuck, blocked = look(3*limit, both, long)
		require.True(t, stuck, "the other key has not changed")
		require.Equal(t, time.Hour, free)
		require.Equal(t, 3*limit, blocked)

		both[0], long[0] = keyOf("new", 2*time.Hour), keyOf("newest", 2*time.Hour)
		free, stuck, _ = look(4*limit, both, long)
		require.True(t, stuck)
		require.Equal(t, time.Hour, free, "the new key may be a contender's")

		both[1].TTL = -time.Millisecond
		long[1].TTL = -time.Millisecond
		free, stuck, _ = look(5*limit, both, long)
		require.True(t, stuck)
		require.Negative(t, free, "they never expire")

		both[1] = keyOf("newer", time.Hour)
		_, stuck, blocked = look(5*limit, both, long)
		require.False(t, stuck)
		require.Equal(t, limit, blocked, "the other name's key is older now")
	}
}
