//go:build unix && !aix && !solaris

package main

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// The process reads the keys before it shows the lock, and the answer comes after the change.
func TestALockThatChangesAfterItWasShownIsNotBroken(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		status int
		values [3]string // of the nodes afterwards
		change func(all []*fakeredis.Master)
	}{
		"another holder": {cli.ExitLost, [3]string{token2, token2, token2}, func(all []*fakeredis.Master) {
			holdAll(all, "job", token2, time.Hour)
		}},
		"another holder on a quorum": {cli.ExitLost, [3]string{token2, token2, token}, func(all []*fakeredis.Master) {
			holdAll(all[:2], "job", token2, time.Hour)
		}},
		"another holder on a minority": {cli.ExitOK, [3]string{token2, "", ""}, func(all []*fakeredis.Master) {
			holdAll(all[:1], "job", token2, time.Hour)
		}},
		"released": {cli.ExitLost, [3]string{}, func(all []*fakeredis.Master) { setFree(all, "job") }},
		"no quorum": {cli.ExitUnavailable, [3]string{token, token, token}, func(all []*fakeredis.Master) {
			all[0].Stop()
			all[1].Stop()
		}},
	} {
		all := listing(t)
		holdAll(all, "job", token, time.Hour)
		p := start(t, all, "break", "job")
		require.Contains(t, p.message(), `job is held by "anna"`, what)
		c.change(all)
		p.say("y")
		require.Equal(t, c.status, p.status(), what)
		messages := p.messages()
		allAnswered(t, all...)
		require.Equal(t, c.status != cli.ExitOK, strings.Contains(messages, "nothing was deleted"), "%s: %s", what, messages)
		for i, m := range all {
			value, _ := m.Get("job")
			require.Equal(t, c.values[i], value, "%s: %s", what, m.Name())
		}
	}
}

// The holder extends the lock while the question is open.
func TestABreakCountsWhatTheHolderExtendedMeanwhile(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	p := start(t, all, "break", "job")
	require.Regexp(t, `for (1h0m0s|5\dm[.\d]*s), on a, b, c \(id [0-9a-f]{24}\)$`, p.message())
	holdAll(all, "job", token, 2*time.Hour)
	p.say("y")
	require.Regexp(t, `may believe for (2h0m0[.\d]*s|1h59m[.\d]*s) more`, p.line())
	require.Equal(t, cli.ExitOK, p.status(), p.messages())
	releasedEverywhere(t, all...)
}

// A lock with a short TTL can be broken. Its holder may extend it forever.
func TestALockWithAShortTTLIsBroken(t *testing.T) {
	late.LeaveOut(t, "a node may be late for half of its TTL")
	t.Parallel()
	for _, guard := range []string{"", "16s", "1h"} {
		all := listing(t)
		var guarded []string
		if guard != "" {
			guarded = []string{"--guard", guard}
			require.Equal(t, cli.ExitOK, invoke(t, envOf(all), "doctor", "--guard", guard, "--admit").status)
		}
		attempts(t, func() string { // a busy machine may lose the lock before it is broken
			run := start(t, all, slices.Concat([]string{"run", "--ttl", "2s"}, guarded, []string{"job", "--", "sh", "-c", "echo runs; exec sleep 60"})...)
			if _, err := run.lineOrEnd(); err != nil {
				require.Equal(t, cli.ExitLost, run.status())
				return "it was lost before the command began"
			}
			got := invoke(t, envOf(all), slices.Concat([]string{"break", "--yes"}, guarded, []string{"job"})...)
			if got.status == cli.ExitLost { // it was too slow to break what it had read, and the holder goes on
				run.signal(syscall.SIGTERM)
				run.status()
				return got.err
			}
			if got.status != cli.ExitOK {
				_ = run.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
				require.Equal(t, cli.ExitLost, run.status(), "guard %q: a lock that is held is not broken: %v", guard, got)
				return got.err
			}
			require.Equal(t, cli.ExitLost, run.status())
			return ""
		})
		releasedEverywhere(t, all...)
	}
}

func TestABrokenLockNamesTheNodesThatMayKeepIt(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--json=false": `(?m)^No answer from \S+, which may keep the key until it expires\.$`,
		"--json":       `"unanswered": \[\s+"c"\s+\]`,
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			_, err := userBinary()
			require.NoError(t, err, "it takes long to build")
			attempts(t, func() string { // on a busy machine a healthy node may be too late, too
				all := listing(t)
				holdAll(all, "job", token, time.Hour)
				all[2].Freeze()
				p := startAsUser(t, all, "break", "--yes", flag, "job")
				out, messages, status := p.gone(), p.messages(), p.status()
				all[2].Unfreeze()
				if status != cli.ExitOK || !regexp.MustCompile(want).MatchString(out) {
					return out + messages
				}
				return ""
			})
		})
	}
}
