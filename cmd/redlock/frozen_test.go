package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// docs/versions.md lists what the tests here hold: scripts rely on it.

func TestExitStatusesAreFrozen(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{0, 1, 64, 65, 69, 71, 74, 75, 78, 126, 127, 128}, []int{
		cli.ExitOK, cli.ExitFailed, cli.ExitUsage, cli.ExitForeign, cli.ExitUnavailable, cli.ExitSystem, cli.ExitLost, cli.ExitHeld, cli.ExitConfig,
		cli.ExitNotExecutable, cli.ExitNotFound, cli.ExitSignal,
	})
	found := map[string][]int{}
	for _, cmd := range commands() {
		for _, e := range cmd.ExitStatuses {
			found[cmd.Name()] = append(found[cmd.Name()], e.Status)
		}
		slices.Sort(found[cmd.Name()])
	}
	require.Equal(t, map[string][]int{ // -1 is COMMAND's own, and 128 is added to the number of a signal
		"demo":       {0, 1, 64, 71, 128},
		"run":        {-1, 64, 65, 69, 71, 74, 75, 78, 126, 127, 128},
		"acquire":    {0, 64, 65, 69, 71, 74, 75, 78, 128},
		"extend":     {0, 64, 69, 71, 74, 75, 78},
		"release":    {0, 64, 69, 71, 74, 75, 78},
		"status":     {0, 64, 69, 71},
		"list":       {0, 1, 64, 69, 71, 128},
		"break":      {0, 1, 64, 69, 71, 74, 75, 78},
		"doctor":     {0, 1, 64, 69, 71, 78, 128},
		"bench":      {0, 1, 64, 69, 71, 75, 78, 128},
		"completion": {0, 64, 71},
		"version":    {0, 64, 71},
	}, found)
}

func TestFieldsOfJSONAreFrozen(t *testing.T) {
	t.Parallel()
	all := listing(t)
	found := map[string]map[string]bool{} // of each subcommand
	run := func(args ...string) string {
		t.Helper()
		got := invoke(t, envOf(all), append(args, "--json")...)
		require.Equal(t, cli.ExitOK, got.status, "%q: %v", args, got)
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.out), &object), got.out)
		if found[args[0]] == nil {
			found[args[0]] = map[string]bool{}
		}
		addFields(found[args[0]], "", object)
		claim, _ := object["claim"].(string)
		return claim
	}
	run("demo")
	claim := run("acquire", "job")
	run("extend", claim)
	run("release", claim)
	run("acquire", "job") // list shows its fence
	holdAll(all, "a\xff", token, time.Hour)
	all[2].Deny("SCAN", "CLIENT KILL")
	run("list")
	holdAll(all, "ledger", token, time.Hour)
	run("status", "ledger")
	all[2].PushList("no lock") // status has an error of this node
	run("status", "no lock")
	run("break", "--yes", "ledger")
	for field, value := range map[string]string{"maxmemory": "9000000", "connected_slaves": "1", "uptime_in_seconds": "90"} {
		all[0].SetInfo(field, value)
	}
	quarantineFleet(t, all, time.Hour)
	run("doctor", "--guard", "1h")
	run("bench", "--embedded", "--count", "1")
	run("version")

	// Other tests hold those of failures, at (with --watch) and unanswered (of break).
	want := map[string]string{
		"acquire": "claim fence id left_ms names",
		"extend":  "fence id left_ms names",
		"release": "id names released",
		"status":  "id left_ms name nodes nodes.error nodes.held nodes.id nodes.left_ms nodes.node nodes.owner owner state",
		"list": "complete names names.fence names.id names.left_ms names.name names.name_base64 names.owner names.state " +
			"nodes nodes.error nodes.node",
		"break": "broken id may_believe_ms name owner",
		"doctor": "can_vote clock_spread_us findings needed nodes nodes.address nodes.answered nodes.clock_offset_us nodes.eviction nodes.findings " +
			"nodes.findings.code nodes.findings.grade nodes.findings.text nodes.guard nodes.max_memory nodes.missing_rights nodes.node nodes.persistence " +
			"nodes.quarantine_ms nodes.replicas nodes.role nodes.round_trip_us nodes.run_id nodes.uptime_s nodes.version ok state",
		"bench": "acquire acquire.buckets acquire.buckets.below_us acquire.buckets.n acquire.max_us acquire.mean_us acquire.min_us acquire.p50_us " +
			"acquire.p90_us acquire.p999_us acquire.p99_us both both.buckets both.buckets.below_us both.buckets.n both.max_us both.mean_us both.min_us " +
			"both.p50_us both.p90_us both.p999_us both.p99_us clients done embedded errors failed left nodes per_second release release.buckets " +
			"release.buckets.below_us release.buckets.n release.max_us release.mean_us release.min_us release.p50_us release.p90_us release.p999_us " +
			"release.p99_us took_ms",
		"demo":    "acts acts.error acts.title ok took_ms",
		"version": "go modified platform revision time version",
	}
	for name, fields := range found {
		require.Equal(t, want[name], strings.Join(slices.Sorted(maps.Keys(fields)), " "), name)
	}
	require.Len(t, found, len(want))
}

// addFields adds the names of an object's fields. An inner one stands behind the name of its object and a dot.
func addFields(found map[string]bool, before string, value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			addFields(found, before, one)
		}
	case map[string]any:
		for name, of := range value {
			found[before+name] = true
			addFields(found, before+name+".", of)
		}
	}
}
