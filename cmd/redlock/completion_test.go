package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// namesFor returns what is offered behind the words of a line.
func namesFor(t *testing.T, env []string, words ...string) (names []string) {
	t.Helper()
	got := invoke(t, env, append([]string{cobra.ShellCompRequestCmd}, words...)...)
	require.Equal(t, cli.ExitOK, got.status, got)
	for line := range strings.Lines(got.out) {
		if strings.HasPrefix(line, ":") {
			return names // the rest is for the shell's script
		}
		names = append(names, strings.TrimSpace(line))
	}
	t.Fatalf("no end: %v", got)
	return nil
}

func TestTheNamesThatAreHeldAreOfferedToAShell(t *testing.T) {
	t.Parallel()
	all := listing(t)
	for _, name := range []string{"job", "invoice:42", "app/job", "größe"} {
		holdAll(all, name, token, time.Hour)
	}
	holdAll(all, "two words", token, time.Hour)
	holdAll(all, "-v", token, time.Hour)
	holdAll(all, "plain", "no lock", time.Hour)
	all[2].Set("minority", token, time.Hour)
	env := envOf(all)
	require.Equal(t, []string{"app/job", "größe", "invoice:42", "job", "minority"}, namesFor(t, env, "status", ""))
	require.Equal(t, []string{"invoice:42"}, namesFor(t, env, "break", "--yes", "in"))
	require.Equal(t, []string{"job"}, namesFor(t, env, "status", "--prefix", "app/", ""))
	require.Equal(t, []string{"job"}, namesFor(t, nil, "status", "--nodes", nodesOf(all), "j"))
	all[0].Stop() // one that answers is enough
	require.Equal(t, []string{"job"}, namesFor(t, env, "status", "j"))
	for _, words := range [][]string{
		{"status", "job", ""},
		{"acquire", ""},
		{"nonsense", ""},
		{"status", "--nonsense", ""},
		{"status", "--nodes", "http://x", ""},
		{"status", "--nodes", ""},
		{"status", "redlock:"},
	} {
		require.Empty(t, namesFor(t, env, words...), words)
	}
	require.Empty(t, namesFor(t, nil, "status", ""), "there are no nodes")
}

func TestAShellIsOfferedABoundedNumberOfNames(t *testing.T) {
	t.Parallel()
	all := listing(t)
	for i := range 200 + 10 {
		all[0].Set(fmt.Sprintf("lock/%04d", i), token, time.Hour)
	}
	require.LessOrEqual(t, len(namesFor(t, envOf(all), "status", "")), 200)
}

func TestEveryShellHasAScriptThatAsksTheCommand(t *testing.T) {
	t.Parallel()
	for _, shell := range shells {
		got := invoke(t, nil, "completion", shell)
		require.Equal(t, outcome{status: cli.ExitOK, out: got.out}, got, shell)
		require.Contains(t, got.out, cobra.ShellCompRequestCmd, shell)
	}
}
