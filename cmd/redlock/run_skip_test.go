//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestANameThatIsHeldIsSkippedInSilence(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	for _, wait := range []string{"0", "50ms"} {
		for skip, want := range map[string]int{"0": 0, "99": 99} {
			p := start(t, all, "run", "--wait", wait, "--skip-status", skip, "job", "--", "echo", "never")
			require.Equal(t, want, p.status())
			require.Empty(t, p.messages(), "cron would mail it")
			require.Empty(t, p.gone())
		}
	}
	p := start(t, all, "run", "--wait", "0", "job", "--", "echo", "never")
	require.Equal(t, cli.ExitHeld, p.status())
	require.Contains(t, p.messages(), `held by "anna"`)
}

// A job that every machine skips in silence would be missed.
func TestOnlyAHolderIsSkipped(t *testing.T) {
	late.LeaveOut(t, "each of the three masters decides what the error says")
	t.Parallel()
	for what, c := range map[string]struct {
		status int
		says   string
		fill   func(all []*fakeredis.Master)
	}{
		"no quorum": {cli.ExitUnavailable, "no quorum", func(all []*fakeredis.Master) {
			all[0].Stop()
			all[1].Stop()
		}},
		"a key that is no lock": {cli.ExitForeign, "not a lock", func(all []*fakeredis.Master) {
			for _, m := range all {
				m.PushList("job")
			}
		}},
		"a key without an expiry": {cli.ExitHeld, "held without an expiry", func(all []*fakeredis.Master) { holdAll(all, "job", "hello", 0) }},
		"keys of two contenders": {cli.ExitHeld, "held by", func(all []*fakeredis.Master) {
			holdAll(all[:1], "job", token, time.Hour)
			holdAll(all[1:2], "job", token2, time.Hour)
		}},
	} {
		all := listing(t)
		c.fill(all)
		attempts(t, func() (wrong string) { // on a busy machine the answer who holds the name may be too late
			got := invoke(t, envOf(all), "run", "--ttl", "12s", "--wait", "0", "--no-fence", "--skip-status", "0", "job", "--", "echo", "never")
			require.Empty(t, got.out, what)
			require.NotEqual(t, cli.ExitOK, got.status, "%s: skipped in silence", what)
			if got.status != c.status || !strings.Contains(got.err, c.says) {
				wrong = fmt.Sprintf("%s: %v", what, got)
			}
			allAnswered(t, all...)
			return wrong
		})
	}
}

func TestANameStaysHeldForTheMinimumHold(t *testing.T) {
	t.Parallel()
	all := listing(t)
	p := start(t, all, "run", "--ttl", "10s", "--min-hold", "1m", "--owner", "first", "job", "--", "echo", "done")
	require.Equal(t, "done", p.line())
	require.Equal(t, 0, p.status(), p.messages())
	allAnswered(t, all...)
	require.GreaterOrEqual(t, len(locks(all...)), 2)
	for _, n := range listNames(t, cli.ExitOK, all).Names {
		require.Equal(t, "first", n.Owner)
		require.Greater(t, n.LeftMS, int64(30_000))
		require.LessOrEqual(t, n.LeftMS, int64(60_000))
	}
	p = start(t, all, "run", "--wait", "0", "--skip-status", "0", "job", "--", "echo", "never")
	require.Equal(t, 0, p.status())
	require.Empty(t, p.gone())
}

func TestACommandThatTakesLongerThanTheMinimumHoldFreesTheName(t *testing.T) {
	t.Parallel()
	all := listing(t)
	p := start(t, all, "run", "--ttl", "10s", "--min-hold", "1s", "job", "--", "sleep", "1.1") // its node timeout is a quarter of the minimum hold
	require.Equal(t, 0, p.status(), p.messages())
	releasedEverywhere(t, all...)
}

// Standard output is COMMAND's, so the object goes to standard error.
func TestAFailedRunIsAnObjectOnStandardError(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "held", token, time.Hour)
	for _, c := range []struct {
		status int
		code   string
		args   []string
	}{
		{cli.ExitHeld, "held", []string{"--wait", "0", "held", "--", "echo", "never"}},
		{99, "held", []string{"--wait", "0", "--skip-status", "99", "held", "--", "echo", "never"}},
		{cli.ExitUsage, "usage", []string{"held"}},
		{cli.ExitUsage, "usage", []string{"--tll", "1s", "held", "--", "echo", "never"}},
		{cli.ExitNotFound, "not_found", []string{"job", "--", "no-such-command"}},
		{cli.ExitConfig, "guard", []string{"--guard", "1h", "job", "--", "echo", "never"}},
	} {
		p := start(t, all, append([]string{"run", "--json"}, c.args...)...)
		require.Equal(t, c.status, p.status(), c.args)
		require.Equal(t, c.code, failureIn(t, p.messages()).Code, c.args)
		require.Empty(t, p.gone(), c.args)
	}
	for _, args := range [][]string{
		{"--wait", "0", "--skip-status", "0", "held", "--", "echo", "never"}, // no failure
		{"job", "--", "sh", "-c", "exit 0"},
		{"job", "--", "sh", "-c", "exit 75"}, // COMMAND's own
	} {
		p := start(t, all, append([]string{"run", "--json"}, args...)...)
		p.status()
		require.Empty(t, p.messages(), args)
		require.Empty(t, p.gone(), args)
	}
}

func TestALossAndASignalAreObjectsOnStandardError(t *testing.T) {
	t.Parallel()
	all := listing(t)
	p := start(t, all, "run", "--json", "--ttl", "12s", "--grace", "200ms", "job", "--", "sh", "-c", "echo go; read x")
	p.line()
	holdAll(all, "job", token2, time.Hour)
	require.Equal(t, cli.ExitLost, p.status())
	lost := failureIn(t, p.messages())
	require.Equal(t, "lost", lost.Code)
	require.Equal(t, redlock.LossGone, lost.Reason)
	require.Positive(t, *lost.OverlapMS)
	require.Contains(t, lost.Error, "job was lost while the command ran: ")

	holdAll(all, "held", token, time.Hour)
	p = start(t, all, "run", "--json", "held", "--", "echo", "never")
	require.Contains(t, p.message(), "waiting up to")
	p.signal(syscall.SIGTERM)
	require.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), p.status())
	require.Equal(t, "signal", failureIn(t, p.messages()).Code)
}
