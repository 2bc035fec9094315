package integration

import (
	"slices"
	"testing"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// A call of the library ends when a majority has answered. The other nodes execute its command later. A
// test that kills, changes or examines each node, or one that it chose, first waits for the event that
// these nodes have executed it. The three functions below do that.

// heldEverywhere waits until every node has all these keys.
func heldEverywhere(t testing.TB, nodes []*redistest.Node, keys ...string) {
	t.Helper()
	for _, n := range nodes {
		for _, key := range keys {
			await(t, "every node has the key "+key, func() bool { return n.Do(t, "EXISTS", key) == int64(1) })
		}
	}
}

// releasedEverywhere waits until no node has any of these keys. [redistest.NoKeys] is for all keys.
func releasedEverywhere(t testing.TB, nodes []*redistest.Node, keys ...string) {
	t.Helper()
	for _, n := range nodes {
		for _, key := range keys {
			await(t, "no node has the key "+key, func() bool { return n.Do(t, "EXISTS", key) == int64(0) })
		}
	}
}

// answered waits until every node has executed and answered all that this Locker has sent. A Locker
// sends its commands to a node over one connection, in order. Only releases are sent behind other
// commands of the same batch, so a second question is sent when the first one is answered. The next
// command of the Locker does not have to dial either.
func answered(t testing.TB, l *redlock.Locker) {
	t.Helper()
	rounds := 0
	await(t, "every node answers twice", func() bool {
		s, err := l.Inspect(t.Context(), "answered")
		if err != nil || slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return n.Err != nil }) {
			rounds = 0
			return false
		}
		rounds++
		return rounds == 2
	})
}
