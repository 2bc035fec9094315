package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	require.Contains(t, overviewText, f.Code)
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
		{exitUsage, "usage", all, []string{"acquire", "--json"}},
		{exitUsage, "usage", all, []string{"acquire", "--json", "--ttl", "5", "job"}},
		{exitUsage, "usage", all, []string{"acquire", "--ttl", "5", "--json", "job"}},
		{exitUsage, "usage", all, []string{"stauts", "--json"}},
		{exitUsage, "usage", all, []string{"status", "--jsno", "--json", "job"}},
		{exitUsage, "usage", all, []string{"version", "--json", "now"}},
		{exitUsage, "usage", all, []string{"demo", "--json", "now"}},
		{exitUsage, "usage", all, []string{"acquire", "--json", "--ttl", "25h", "job"}},
		{exitUsage, "usage", all, []string{"--json"}},
		{exitHeld, "held", all, []string{"acquire", "--json", "--wait", "0", "held"}},
		{exitHeld, "held", all, []string{"acquire", "--json", "--wait", "50ms", "held"}},
		{exitHeld, "held", all, []string{"acquire", "--json", "--wait", "0", "forever"}},
		{exitForeign, "foreign_key", all, []string{"acquire", "--json", "--wait", "0", "a list"}},
		{exitFailed, "foreign_key", all, []string{"break", "--json", "--yes", "a list"}},
		{exitFailed, "free", all, []string{"break", "--json", "--yes", "job"}},
		{exitFailed, "declined", all, []string{"break", "--json", "held"}},
		{exitFailed, "incomplete", all, []string{"list", "--json", "--timeout", "1ns"}},
		{exitLost, "lost", all, []string{"extend", "--json", someClaim}},
		{exitLost, "lost", all, []string{"release", "--json", someClaim}},
		{exitConfig, "guard", all, []string{"acquire", "--json", "--guard", "1h", "--wait", "0", "job"}},
		{exitUnavailable, "no_quorum", down, []string{"acquire", "--json", "--wait", "0", "job"}},
		{exitUnavailable, "no_quorum", down, []string{"acquire", "--json", "--wait", "50ms", "job"}},
		{exitUnavailable, "no_quorum", down, []string{"extend", "--json", someClaim}},
		{exitUnavailable, "no_quorum", down, []string{"release", "--json", someClaim}},
		{exitUnavailable, "no_quorum", down, []string{"status", "--json", "job"}},
		{exitUnavailable, "no_quorum", down, []string{"list", "--json"}},
		{exitUnavailable, "no_quorum", down, []string{"break", "--json", "--yes", "job"}},
		{exitUnavailable, "no_quorum", down, []string{"bench", "--json", "--count", "1"}},
		{exitFailed, "failed", down, []string{"doctor", "--json"}},
		{exitFailed, "not_admitted", down, []string{"doctor", "--json", "--guard", "1h", "--admit"}},
		{exitFailed, "failed", down, []string{"doctor", "--json", "--guard", "1h", "--begin-guard"}},
		{exitFailed, "failed", down, []string{"demo", "--json"}},
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
	require.Equal(t, exitHeld, got.status, got)
	f := failureIn(t, got.out)
	require.Equal(t, "quarantined", f.Code)
	require.InDelta(t, time.Hour.Milliseconds(), *f.LeftMS, 60_000)
}

func TestCodesAreThoseOfTheReason(t *testing.T) {
	t.Parallel()
	votes := []redlock.Vote{{Err: redlock.ErrNodeTimeout}, {Err: &redlock.HeldError{Owner: "a"}}}
	quorum := func(reason error, split bool) error {
		return fmt.Errorf("x: %w", &redlock.QuorumError{Reason: reason, Split: split, Need: 2, Votes: votes})
	}
	for _, c := range []struct {
		want   string
		status int
		err    error
	}{
		{"held", exitHeld, quorum(redlock.ErrHeld, false)},
		{"held", 99, quorum(redlock.ErrHeld, false)}, // --skip-status
		{"split", exitHeld, quorum(redlock.ErrHeld, true)},
		{"no_quorum", exitUnavailable, quorum(redlock.ErrNoQuorum, false)},
		{"too_late", exitUnavailable, quorum(redlock.ErrTooLate, false)},
		{"lost", exitLost, quorum(redlock.ErrLost, false)},
		{"quarantined", exitHeld, quorum(redlock.ErrQuarantined, false)},
		{"signal", 130, signalError{syscall.SIGINT}},
		{"signal", 130, nil},
		{"no_quorum", exitUnavailable, context.DeadlineExceeded},
		{"system", exitSystem, errors.New("no pipe")},
		{"not_executable", exitNotExecutable, nil},
		{"not_found", exitNotFound, nil},
		{"guard", exitConfig, notBegunError{}},
		{"failed", exitFailed, nil},
		{"failed", 3, errors.New("anything")},
	} {
		require.Equal(t, c.want, codeOf(c.status, c.err), "%d %v", c.status, c.err)
		require.Contains(t, overviewText, c.want)
	}
	for _, c := range errorCodes {
		require.Contains(t, overviewText, c.code)
	}
	cmd := &subcommand{exitStatuses: []exitStatus{endsSignal, endsMisused}}
	require.Equal(t, endsSignal.when, cmd.meaning(143))
	require.Equal(t, endsMisused.when, cmd.meaning(exitUsage))
	require.True(t, strings.HasSuffix(cmd.meaning(9), "9"))
}
