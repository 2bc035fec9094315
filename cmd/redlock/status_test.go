package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

const token = "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// trio starts three nodes, of which so many hold the name "job".
func trio(t *testing.T, holding int) []*fakeredis.Master {
	t.Helper()
	all := masters(t)
	for _, m := range all[:holding] {
		m.Set("job", token, time.Hour)
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.Del("job")
		}
	})
	return all
}

func TestStatusNamesTheHolder(t *testing.T) {
	t.Parallel()
	all := trio(t, 2)
	got := invoke(t, nil, "status", "job", "--nodes", nodesOf(all))
	require.Equal(t, outcome{status: cli.ExitOK, out: got.out}, got)
	require.Regexp(t, `(?s)^job is held by "anna" for (1h0m0s|5\dm[.\d]*s) \(id [0-9a-f]{24}\)\n\n`+
		`  NODE   HOLDER   ID +LEFT\n● a      "anna"   [0-9a-f]{24}   \S+\n● b      "anna"   [0-9a-f]{24}   \S+\n○ c      –        – +–\n$`, got.out)
}

func TestStatusSaysThatALockIsFree(t *testing.T) {
	t.Parallel()
	got := invoke(t, []string{"REDLOCK_NODES=" + nodesOf(trio(t, 0))}, "status", "job")
	require.Equal(t, cli.ExitOK, got.status)
	require.Contains(t, got.out, "job is free\n")
}

func TestStatusSaysThatAKeyIsNoLock(t *testing.T) {
	t.Parallel()
	all := trio(t, 0)
	for _, m := range all[:2] {
		m.PushList("job")
	}
	got := invoke(t, nil, "status", "--nodes", nodesOf(all), "job")
	require.Equal(t, cli.ExitOK, got.status, "a quorum answered")
	require.Contains(t, got.out, "job can't be locked: its key is not a lock\n")
}

func TestStatusIsUnclearWhereAMasterThatIsSilentMightDecide(t *testing.T) {
	t.Parallel()
	all := trio(t, 1)
	all[2].Stop()
	got := invoke(t, nil, "status", "--nodes", nodesOf(all), "job")
	require.Equal(t, cli.ExitOK, got.status, "a quorum answered")
	require.Contains(t, got.out, "job may be held: too few nodes answered to tell\n")
	require.Contains(t, got.out, "✗ c")
}

func TestStatusWithoutAQuorumIs69AndShowsWhatItKnows(t *testing.T) {
	t.Parallel()
	all := trio(t, 1)
	all[1].Stop()
	all[2].Stop()
	got := invoke(t, nil, "status", "--nodes", nodesOf(all), "job")
	require.Equal(t, cli.ExitUnavailable, got.status)
	require.Contains(t, got.out, `● a      "anna"`)
	require.Contains(t, got.err, "redlock: no quorum")
}

func TestStatusForProgramsHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	all := trio(t, 2)
	all[2].PushList("job")
	got := invoke(t, nil, "status", "--json", "--nodes", nodesOf(all), "job")
	require.Equal(t, cli.ExitOK, got.status)
	var s map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &s))
	left, _ := s["left_ms"].(float64)
	require.InDelta(t, time.Hour.Milliseconds(), left, 60_000)
	nodes, _ := s["nodes"].([]any)
	require.Len(t, nodes, 3)
	a, _ := nodes[0].(map[string]any)
	require.InDelta(t, time.Hour.Milliseconds(), a["left_ms"], 60_000)
	delete(a, "left_ms")
	require.Equal(t, map[string]any{
		"name": "job", "state": "held", "owner": "anna", "id": command.ID(token), "left_ms": left,
		"nodes": []any{map[string]any{"node": "a", "held": true, "owner": "anna", "id": command.ID(token)}, nodes[1], nodes[2]},
	}, s)
	c, _ := nodes[2].(map[string]any)
	require.Equal(t, false, c["held"])
	require.Contains(t, c["error"], "not a lock")
	require.NotContains(t, got.out, "ABCDEF", "who knows the token can release the lock")
}

// They need the guard for locks, and not to be read.
func TestStatusReadsNodesBehindSentinels(t *testing.T) {
	t.Parallel()
	all := trio(t, 3)
	var urls []string
	for _, m := range all {
		s, err := fakeredis.StartSentinel(m.Name()+"-sentinel", 0)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		s.SetMaster("m", m.Addr())
		urls = append(urls, "redis+sentinel://"+s.Addr()+"/m")
	}
	got := invoke(t, nil, "status", "job", "--nodes", strings.Join(urls, ","))
	require.Equal(t, cli.ExitOK, got.status, got.err)
	require.Contains(t, got.out, `job is held by "anna" for `)
	for _, m := range all {
		require.Equal(t, []string{"job"}, m.Keys(), "no marker")
	}
}
