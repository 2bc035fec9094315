package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// unwritable is a file that refuses what is written to it, as a full disk does.
func unwritable(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOutputThatCannotBeWrittenIsReportedByEverySubcommand(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := envOf(all)
	claim := func() string { // of a lock of its own
		_, text := acquired(t, all, env, "claimed")
		return strings.TrimSpace(text)
	}
	invocations := map[string][]func() []string{
		"help": {words("help"), words("--help")}, // that of the subcommands is added below
		"run":  {},                               // its output is COMMAND's
		"demo": {words("demo", "--json")},
		"acquire": {
			words("acquire", "job"), words("acquire", "--json", "job"),
			words("acquire", "--json", "--ttl", "soon", "job"), // the object of a failure
		},
		"extend": {func() []string { return []string{"extend", "--json", claim()} }},
		"release": {
			func() []string { setFree(all, "claimed"); return []string{"release", "--json", claim()} },
		},
		"status": {
			words("status", "job"), words("status", "--json", "job"),
			words("status", "--watch", "job"), words("status", "--watch", "--json", "job"),
		},
		"list": {words("list"), words("list", "--json")},
		"break": {
			func() []string {
				holdAll(all, "broken", token, time.Hour)
				return []string{"break", "--yes", "broken"}
			},
			func() []string {
				holdAll(all, "broken", token, time.Hour)
				return []string{"break", "--json", "--yes", "broken"}
			},
		},
		"doctor":     {words("doctor"), words("doctor", "--json")},
		"bench":      {words("bench", "--count", "1"), words("bench", "--json", "--count", "1")},
		"completion": {words("completion", "bash"), words("completion", "zsh"), words("completion", "fish")},
		"version":    {words("version"), words("version", "--json"), words("--version")},
	}
	for _, cmd := range commands() {
		list, ok := invocations[cmd.Name()]
		require.True(t, ok, "%s writes to standard output, or is listed as one that does not", cmd.Name())
		invocations[cmd.Name()] = append(slices.Clone(list), words(cmd.Name(), "-h"), words("help", cmd.Name()))
	}
	for _, list := range invocations {
		for _, args := range list {
			args := args()
			messages, err := os.CreateTemp(t.TempDir(), "")
			require.NoError(t, err)
			status := execute(context.Background(), args, env, nil, unwritable(t), messages)
			said, err := io.ReadAll(io.NewSectionReader(messages, 0, 1<<20))
			require.NoError(t, err)
			require.NoError(t, messages.Close())
			want := cli.ExitSystem
			if slices.Contains(args, "soon") {
				want = cli.ExitUsage
			}
			require.Equal(t, want, status, "%q: %s", args, said)
			require.Regexp(t, `(?m)^redlock: the output could not be written: .`, string(said), "%q", args)
		}
	}
	allAnswered(t, all...)
	setFree(all, "claimed")
}

func words(args ...string) func() []string { return func() []string { return args } }
