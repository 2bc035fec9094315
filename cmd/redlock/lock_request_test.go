package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
)

// The first attempt finds the holder. The deadline cuts off the query of the next one, after a quorum
// has refused it, and after some nodes have answered the query. No time that a machine is stopped for
// changes what the command reports.
func TestAWaitThatEndsDuringItsQueryNamesTheHolder(t *testing.T) {
	t.Parallel()
	script := map[string]string{}
	for _, s := range command.Scripts() {
		script[s.Hash] = s.Name
	}
	for silent := 1; silent <= 3; silent++ {
		for _, c := range []struct {
			status int
			args   []string
		}{
			{cli.ExitHeld, []string{"acquire", "--wait", "300ms", "job"}},
			{cli.ExitHeld, []string{"run", "--wait", "300ms", "job", "--", "echo", "never"}},
			{99, []string{"run", "--wait", "300ms", "--skip-status", "99", "job", "--", "echo", "never"}},
		} {
			all := listing(t)
			holdAll(all, "job", "other:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
			for _, m := range all[:silent] {
				attempts := 0
				m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
					if cmd == "EVALSHA" && script[args[0]] == "acquire+fence" {
						attempts++
					}
					// What is handled without a reply is never answered.
					return "", cmd == "EVALSHA" && script[args[0]] == "inspect" && attempts > 1
				})
			}
			got := invoke(t, envOf(all), c.args...)
			require.Equal(t, c.status, got.status, "%d silent, %q: %v", silent, c.args, got)
			require.Empty(t, got.out)
			if c.status == cli.ExitHeld {
				require.Regexp(t, `(?m)^redlock: job: held by "other"`, got.err)
			} else {
				require.Empty(t, got.err, "cron would mail it")
			}
		}
	}
}

// One node of the attempt that the deadline cuts off has failed, and the others have not answered: they
// are no reason to report that there is no quorum.
func TestAWaitThatEndsBeforeAMajorityAnswersReportsWhatTheAttemptBeforeFound(t *testing.T) {
	t.Parallel()
	hashes := map[string]bool{}
	for _, s := range command.Scripts() {
		hashes[s.Hash] = s.Name == "acquire+fence"
	}
	all := listing(t)
	holdAll(all, "job", "other:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	for i, m := range all {
		attempts := 0
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd != "EVALSHA" || !hashes[args[0]] {
				return "", false
			}
			attempts++
			if i == 0 {
				return "-OOM command not allowed when used memory > 'maxmemory'.", attempts > 1
			}
			return "", attempts > 1
		})
	}
	got := invoke(t, envOf(all), "acquire", "--wait", "300ms", "job")
	require.Equal(t, cli.ExitHeld, got.status, got)
	require.Regexp(t, `(?m)^redlock: job: held by "other"`, got.err)
}

// A name may come from data.
func TestANameIsPrintedWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	all := masters(t)
	name := "job\x1b[31m\nx"
	for _, m := range all {
		m.Set(name, "somebody", time.Minute)
	}
	for _, args := range [][]string{{"acquire", "--wait", "0", name}, {"run", "--wait", "0", name, "--", "true"}, {"status", name}} {
		got := invoke(t, envOf(all), args...)
		require.NotContains(t, got.out+got.err, "\x1b")
		require.Contains(t, got.out+got.err, `job\x1b[31m\x0ax`)
	}
	for _, m := range all {
		m.Del(name)
	}
}

func TestAWaitThatFindsNoQuorumSaysSoInPlainWords(t *testing.T) {
	t.Parallel()
	all := listing(t)
	all[0].Stop()
	all[1].Stop()
	got := invoke(t, envOf(all), "acquire", "--wait", "300ms", "job")
	require.Equal(t, cli.ExitUnavailable, got.status, got)
	require.Regexp(t, `\nredlock: (after a wait of 300ms: )?no quorum of nodes could be reached: `, got.err)
	require.NotContains(t, got.err, "deadline")
}
