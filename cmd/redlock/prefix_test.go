package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// A reserved prefix is refused wherever it is used: also where a flag is read, and then forgotten, this fails.
func TestEverySubcommandPutsThePrefixBeforeItsNames(t *testing.T) {
	t.Parallel()
	nodes := []string{"REDLOCK_NODES=redis://127.0.0.1:1"}
	for _, cmd := range commands() {
		cmd.Define(cmd.Flags())
		if cmd.Flags().Lookup("nodes") == nil {
			continue
		}
		words := map[string][]string{
			"run": {"n", "--", "true"}, "acquire": {"n"}, "extend": {someClaim}, "release": {someClaim}, "status": {"n"}, "break": {"n"},
		}[cmd.Name()]
		got := invoke(t, nodes, append([]string{cmd.Name(), "--prefix", "redlock:"}, words...)...)
		require.Equal(t, cli.ExitUsage, got.status, cmd.Name())
		require.Contains(t, got.err, `--prefix "redlock:"`, cmd.Name())
		got = invoke(t, append(nodes, "REDLOCK_PREFIX=redlock:x"), append([]string{cmd.Name()}, words...)...)
		require.Equal(t, cli.ExitUsage, got.status, cmd.Name())
		require.Contains(t, got.err, `--prefix "redlock:x"`, cmd.Name())
	}
}

func TestALockWithAPrefixIsAnotherLock(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := append(envOf(all), "REDLOCK_PREFIX=app/")
	_, claim := acquired(t, all, env, "job")
	_, other := acquired(t, all, env, "--prefix", "", "job")
	for _, m := range all {
		require.ElementsMatch(t, []string{"app/job", "job"}, locks(m))
	}
	for prefix, held := range map[string]bool{"app/": true, "": true, "app": false} {
		got := invoke(t, env, "status", "--prefix", prefix, "job")
		require.Equal(t, cli.ExitOK, got.status, got)
		require.Equal(t, held, strings.Contains(got.out, "job is held"), "%q: %s", prefix, got.out)
	}
	require.Equal(t, cli.ExitHeld, invoke(t, env, "acquire", "--wait", "0", "job").status)

	require.Equal(t, cli.ExitLost, invokeWith(t, claim, env, "extend", "--prefix", "app", "-").status, "it is not known there")
	require.Equal(t, cli.ExitLost, invokeWith(t, claim, env, "release", "--prefix", "", "-").status, "nor here, where another client holds it")
	require.Equal(t, silent, invokeWith(t, claim, env, "extend", "-"))
	require.Equal(t, silent, invokeWith(t, claim, env, "release", "-"))
	allAnswered(t, all...)
	require.Equal(t, []string{"job", "job", "job"}, locks(all...))
	require.Equal(t, silent, invokeWith(t, other, envOf(all), "release", "-"))
}

func TestTheKeysOfTheDemoHaveThePrefix(t *testing.T) {
	t.Parallel()
	for word, args := range map[string][]string{
		"redlock:doctor:": {"doctor"},
		"bench-":          {"bench", "--count", "3"},
		"demo-":           {"demo"},
	} {
		all := masters(t)
		got := invoke(t, envOf(all), append(args, "--prefix", "app/")...)
		require.Equal(t, cli.ExitOK, got.status, "%s: %v", args, got)
		allAnswered(t, all...)
		keys := 0
		for _, e := range all[0].Log() {
			for _, a := range e.Args {
				require.False(t, strings.HasPrefix(a, word), "%s: %s %q", args, e.Name, e.Args)
				if strings.HasPrefix(a, "app/"+word) {
					keys++
				}
			}
		}
		require.Positive(t, keys, args)
	}
}
