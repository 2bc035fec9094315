package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func TestTheDemoSucceedsOnMastersOfItsOwn(t *testing.T) {
	t.Parallel()
	got := invoke(t, nil, "demo")
	require.Equal(t, cli.ExitOK, got.status, got.out)
	require.Empty(t, got.err)
	require.Contains(t, got.out, "exact, and never more than one inside")
	require.Contains(t, got.out, "node-2 is stopped")
	require.Contains(t, got.out, "All went well.")
	require.NotContains(t, got.out, "\x1b", "no colours in a file")
	require.NotContains(t, got.out, "✗")
}

func TestTheDemoSucceedsOnGivenMastersAndLeavesNothing(t *testing.T) {
	t.Parallel()
	all := masters(t) // checks that no key is left
	t.Cleanup(func() {
		allAnswered(t, all...)
		for _, m := range all {
			require.NotContains(t, strings.Join(m.Keys(), " "), "demo-")
		}
	})
	nodes := nodesOf(all[:1]) + "," + all[1].URL() + "," + all[2].URL()
	got := invoke(t, nil, "demo", "--nodes", nodes)
	require.Equal(t, cli.ExitOK, got.status, got.out)
	require.Contains(t, got.out, "our connection to "+all[1].Addr()+"/0 is cut (the node itself is left alone)")
}

func TestTheDemoFailsWithoutAQuorum(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[0].Stop()
	all[1].Stop()
	got := invoke(t, nil, "demo", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.out, "✗ no quorum of nodes could be reached")
	require.NotContains(t, got.out, "contenders", "nothing more is tried")
}

func TestTheDemoFailsIfNodesGrantToAllClients(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all {
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			if cmd == "SET" {
				m.FlushAll() // it forgets the holder
			}
			return "", false
		})
		t.Cleanup(func() {
			allAnswered(t, m)
			m.FlushAll()
		})
	}
	got := invoke(t, nil, "demo", "--nodes", nodesOf(all))
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.out, "ben got the lock that anna holds")
	require.Contains(t, got.out, "A part failed.")
}
