package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// failed is a failure as --json prints it.
type failed struct {
	Error, Code string
	Owner       *string
	LeftMS      *int64 `json:"left_ms"`
	Reason      redlock.LossReason
	OverlapMS   *int64 `json:"overlap_ms"`
}

// failureIn reads the one object in an output.
func failureIn(t *testing.T, out string) (f failed) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(out), &f), "not one object: %s", out)
	require.NotEmpty(t, f.Error, out)
	require.Contains(t, cli.Overview, f.Code)
	conceals(t, "a failure", out, token, token2)
	return f
}

func TestEveryFailureIsOneObjectForPrograms(t *testing.T) {
	t.Parallel()
	all := listing(t)
	down := listing(t)
	down[0].Stop()
	down[1].Stop()
	holdAll(all, "held", token, time.Hour)
	holdAll(all, "forever", token, 0)
	for _, m := range all {
		m.PushList("a list")
	}
	for _, c := range []struct {
		status int
		code   string
		nodes  []*fakeredis.Master
		args   []string
	}{
		{cli.ExitUsage, "usage", all, []string{"acquire", "--json"}},
		{cli.ExitUsage, "usage", all, []string{"acquire", "--json", "--ttl", "5", "job"}},
		{cli.ExitUsage, "usage", all, []string{"acquire", "--ttl", "5", "--json", "job"}},
		{cli.ExitUsage, "usage", all, []string{"stauts", "--json"}},
		{cli.ExitUsage, "usage", all, []string{"status", "--jsno", "--json", "job"}},
		{cli.ExitUsage, "usage", all, []string{"version", "--json", "now"}},
		{cli.ExitUsage, "usage", all, []string{"demo", "--json", "now"}},
		{cli.ExitUsage, "usage", all, []string{"acquire", "--json", "--ttl", "25h", "job"}},
		{cli.ExitUsage, "usage", all, []string{"--json"}},
		{cli.ExitHeld, "held", all, []string{"acquire", "--json", "--wait", "0", "held"}},
		{cli.ExitHeld, "held", all, []string{"acquire", "--json", "--wait", "50ms", "held"}},
		{cli.ExitHeld, "held", all, []string{"acquire", "--json", "--wait", "0", "forever"}},
		{cli.ExitForeign, "foreign_key", all, []string{"acquire", "--json", "--wait", "0", "a list"}},
		{cli.ExitFailed, "foreign_key", all, []string{"break", "--json", "--yes", "a list"}},
		{cli.ExitFailed, "free", all, []string{"break", "--json", "--yes", "job"}},
		{cli.ExitFailed, "declined", all, []string{"break", "--json", "held"}},
		{cli.ExitFailed, "incomplete", all, []string{"list", "--json", "--timeout", "1ns"}},
		{cli.ExitLost, "lost", all, []string{"extend", "--json", someClaim}},
		{cli.ExitLost, "lost", all, []string{"release", "--json", someClaim}},
		{cli.ExitConfig, "guard", all, []string{"acquire", "--json", "--guard", "1h", "--wait", "0", "job"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"acquire", "--json", "--wait", "0", "job"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"acquire", "--json", "--wait", "50ms", "job"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"extend", "--json", someClaim}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"release", "--json", someClaim}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"status", "--json", "job"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"list", "--json"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"break", "--json", "--yes", "job"}},
		{cli.ExitUnavailable, "no_quorum", down, []string{"bench", "--json", "--count", "1"}},
		{cli.ExitFailed, "failed", down, []string{"doctor", "--json"}},
		{cli.ExitFailed, "not_admitted", down, []string{"doctor", "--json", "--guard", "1h", "--admit"}},
		{cli.ExitFailed, "failed", down, []string{"doctor", "--json", "--guard", "1h", "--begin-guard"}},
		{cli.ExitFailed, "failed", down, []string{"demo", "--json"}},
	} {
		got := invoke(t, envOf(c.nodes), c.args...)
		require.Equal(t, c.status, got.status, "%q: %v", c.args, got)
		f := failureIn(t, got.out)
		require.Equal(t, c.code, f.Code, "%q: %v", c.args, got)
		if c.code != "held" && c.code != "declined" {
			require.Nil(t, f.Owner, "%q: %v", c.args, got)
			continue
		}
		require.Equal(t, "anna", *f.Owner)
		if c.args[len(c.args)-1] == "forever" {
			require.Equal(t, int64(-1), *f.LeftMS)
			continue
		}
		require.Positive(t, *f.LeftMS)
		require.LessOrEqual(t, *f.LeftMS, time.Hour.Milliseconds())
	}
}

func TestAResultOfAFailureKeepsItsFields(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	all[0].Stop()
	all[1].Stop()
	got := invoke(t, envOf(all), "status", "--json", "job")
	require.Regexp(t, `(?s)^\{\n  "name": "job",\n  "state": "unclear",\n  "nodes": .*\],\n  "error": ".*",\n  "code": "no_quorum"\n\}\n$`, got.out)
	require.Contains(t, got.err, "redlock: no quorum", "people read it as before")
	got = invoke(t, envOf(all), "doctor", "--json")
	require.Regexp(t, `(?s)^\{\n  "ok": false,\n.*"code": "failed"\n\}\n$`, got.out)
}

func TestWithoutJSONNoObjectIsPrinted(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "held", token, time.Hour)
	for _, args := range [][]string{{"acquire", "--wait", "0", "held"}, {"run", "held", "--", "no-such-command", "--json"}, {"list", "--", "--json"}} {
		got := invoke(t, envOf(all), args...)
		require.NotContains(t, got.out+got.err, "{", args)
	}
}

func TestAQuarantineSaysForHowLongToPrograms(t *testing.T) {
	t.Parallel()
	all := listing(t)
	quarantineFleet(t, all, time.Hour)
	got := invoke(t, envOf(all), "acquire", "--json", "--no-fence", "--guard", "1h", "--wait", "0", "job")
	require.Equal(t, cli.ExitHeld, got.status, got)
	f := failureIn(t, got.out)
	require.Equal(t, "quarantined", f.Code)
	require.InDelta(t, time.Hour.Milliseconds(), *f.LeftMS, 60_000)
}
