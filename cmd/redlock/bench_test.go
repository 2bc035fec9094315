package main

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func TestABenchMeasuresTheRequestedCountAndLeavesNothing(t *testing.T) {
	t.Parallel()
	all := masters(t) // checks that no lock is left
	t.Cleanup(func() {
		allAnswered(t, all...)
		for _, m := range all {
			require.Empty(t, m.Keys(), "nor a counter")
		}
	})
	got := invoke(t, envOf(all), "bench", "--count", "60", "--clients", "4", "--for", "1m")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Empty(t, got.err)
	require.Regexp(t, `^3 nodes, 4 clients: 60 locks acquired and released in \S+ m?s, [\d,]+ a second\n`, got.out)
	require.Regexp(t, `(?m)^ +LEAST +MEDIAN +90 % +99 % +99\.9 % +MOST$`, got.out)
	for _, what := range []string{"acquire", "release", "both"} {
		require.Regexp(t, `(?m)^  `+what+`( +\S+ m?s){6}$`, got.out)
	}
	require.Regexp(t, `(?m)^  below +\S+ m?s  █+ \d+$`, got.out)
	require.NotContains(t, got.out, "\x1b")
	fits(t, got.out)
}

func TestABenchForProgramsHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	got := invoke(t, nil, "bench", "--embedded", "--count", "20", "--json", "--for", "1m")
	require.Equal(t, cli.ExitOK, got.status, got)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	help := invoke(t, nil, "bench", "-h").out
	for field := range r {
		require.Contains(t, help, field)
	}
	require.Equal(t, []any{"node-1", "node-2", "node-3"}, r["nodes"])
	require.Equal(t, true, r["embedded"])
	require.EqualValues(t, 20, r["done"])
	require.EqualValues(t, 0, r["failed"])
	require.Equal(t, map[string]any{}, r["errors"])
	require.Equal(t, []any{}, r["left"])
	both, _ := r["both"].(map[string]any)
	for field := range both {
		require.Contains(t, help, field)
	}
	require.LessOrEqual(t, both["min_us"], both["p50_us"])
	require.LessOrEqual(t, both["p50_us"], both["max_us"])
	counted := 0.0
	buckets, _ := both["buckets"].([]any)
	for _, b := range buckets {
		n, _ := b.(map[string]any)["n"].(float64)
		counted += n
	}
	require.EqualValues(t, 20, counted)
}

func TestABenchEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	got := invoke(t, nil, "bench", "--embedded", "--for", "50ms")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Contains(t, got.out, "3 nodes inside of this process, which say nothing about Redis, 1 client: ")
}

func TestABenchWithoutAQuorumIs69(t *testing.T) {
	t.Parallel()
	all := masters(t)
	all[0].Stop()
	all[1].Stop()
	got := invoke(t, envOf(all), "bench")
	require.Equal(t, cli.ExitUnavailable, got.status)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "no quorum")
}

func TestABenchThatFailsUnderWayCountsItAndSaysSo(t *testing.T) {
	t.Parallel()
	all := masters(t)
	var heard atomic.Int64 // by both: a slow one may miss an attempt that is decided without it
	for _, m := range all[:2] {
		m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
			// The 10 acquisitions that are not measured send at most 20.
			return "-ERR disk on fire", cmd == "SET" && heard.Add(1) > 30
		})
	}
	got := invoke(t, envOf(all), "bench", "--count", "30", "--for", "1m", "--json")
	for _, m := range all[:2] {
		m.Hook(nil)
	}
	t.Cleanup(func() {
		allAnswered(t, all...)
		for _, key := range locks(all...) { // what could not be undone in time
			setFree(all, key)
		}
	})
	require.Equal(t, cli.ExitFailed, got.status, got)
	var r struct {
		Done, Failed int
		Errors       map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Equal(t, 30, r.Done+r.Failed)
	require.Positive(t, r.Done)
	require.Positive(t, r.Failed)
	counted := 0
	for kind, n := range r.Errors {
		require.Contains(t, []string{"no quorum of nodes could be reached", "held by another client"}, kind)
		counted += n
	}
	require.Equal(t, r.Failed, counted)
}

// Nobody has begun a guard on the nodes inside the process.
func TestABenchOfEmbeddedNodesKnowsNoGuard(t *testing.T) {
	t.Parallel()
	got := invoke(t, []string{"REDLOCK_GUARD=1m"}, "bench", "--embedded", "--count", "10")
	require.Equal(t, cli.ExitOK, got.status, got.err)
	got = invoke(t, nil, "bench", "--embedded", "--count", "10", "--guard", "1m")
	require.Equal(t, cli.ExitUsage, got.status)
	require.Contains(t, got.err, "--embedded excludes --guard")
}
