package main

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is what an invocation in this process printed and returned.
type outcome struct {
	status   int
	out, err string
}

func invoke(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	var files [2]*os.File
	for i := range files {
		files[i], err = os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer func() { _ = files[i].Close() }()
	}
	status := run(context.Background(), args, env, null, files[0], files[1])
	var text [2]string
	for i, f := range files {
		_, err := f.Seek(0, io.SeekStart)
		require.NoError(t, err)
		b, err := io.ReadAll(f)
		require.NoError(t, err)
		text[i] = string(b)
	}
	return outcome{status, text[0], text[1]}
}

func TestHelpIsPrintedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		got := invoke(t, nil, args...)
		require.Equal(t, exitOK, got.status)
		require.Empty(t, got.err)
		for _, cmd := range commands() {
			require.Contains(t, got.out, "redlock "+cmd.name)
		}
	}
	for _, cmd := range commands() {
		for _, args := range [][]string{{"help", cmd.name}, {cmd.name, "-h"}, {cmd.name, "--help"}} {
			got := invoke(t, nil, args...)
			require.Equal(t, exitOK, got.status, args)
			require.Empty(t, got.err)
			require.Contains(t, got.out, "Usage: redlock "+cmd.name)
			require.Contains(t, got.out, "Example:\n  redlock "+cmd.name)
			require.Contains(t, got.out, "--nodes URLs")
		}
	}
}

func TestWrongUsageIs64AndSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	nodes := []string{"REDLOCK_NODES=redis://127.0.0.1:1"}
	for _, c := range []struct {
		says string
		env  []string
		args []string
	}{
		{"Usage", nil, nil},
		{"there is no command \"stauts\"", nil, []string{"stauts"}},
		{"no masters are given", nil, []string{"status", "n"}},
		{"would be a lie", []string{"REDLOCK_NODES= "}, []string{"run", "n", "--", "true"}},
		{"an empty URL", nil, []string{"status", "--nodes", "redis://a,,redis://b", "n"}},
		{"the scheme must be", nil, []string{"status", "--nodes", "http://a", "n"}},
		{"listed twice", nil, []string{"status", "--nodes", "redis://a,redis://a", "n"}},
		{"one NAME is needed, 0 given", nodes, []string{"status"}},
		{"one NAME is needed, 2 given", nodes, []string{"status", "n", "m"}},
		{"name", nodes, []string{"status", ""}},
		{"provided but not defined: --jsno", nodes, []string{"status", "n", "--jsno"}},
		{"a NAME is needed", nodes, []string{"run"}},
		{"a NAME is needed", nodes, []string{"run", "--", "true"}},
		{"one NAME, then --", nodes, []string{"run", "n", "true"}},
		{"one NAME, then --", nodes, []string{"run", "n", "m", "--", "true"}},
		{"no COMMAND behind the --", nodes, []string{"run", "n", "--"}},
		{"for flag --ttl", nodes, []string{"run", "--ttl", "soon", "n", "--", "true"}},
		{"needs an argument: --ttl", nodes, []string{"run", "n", "--ttl", "--", "true"}},
		{"TTL", nodes, []string{"run", "--ttl", "1ms", "n", "--", "true"}},
		{"TTL", nodes, []string{"run", "--ttl", "25h", "n", "--", "true"}},
		{"--wait can't be negative", nodes, []string{"run", "--wait", "-1s", "n", "--", "true"}},
		{"half of --ttl: 5s", nodes, []string{"run", "--ttl", "10s", "--grace", "6s", "n", "--", "true"}},
		{"--grace can be from 0", nodes, []string{"run", "--grace", "-2s", "n", "--", "true"}},
		{"WithOwner", nodes, []string{"run", "--owner", "a:b", "n", "--", "true"}},
		{"takes no NAME", nil, []string{"demo", "n"}},
		{"takes no NAME", nodes, []string{"doctor", "n"}},
		{"no masters are given", nil, []string{"doctor"}},
		{"does not go with --nodes", nil, []string{"doctor", "--embedded", "--nodes", "redis://a"}},
		{"the scheme must be", nil, []string{"doctor", "--nodes", "http://a"}},
		{"--admit needs --guard", nodes, []string{"doctor", "--admit"}},
		{"whole milliseconds", nodes, []string{"doctor", "--guard", "1ms"}},
		{"TTL", nodes, []string{"run", "--guard", "10s", "--ttl", "20s", "n", "--", "true"}},
		{"the scheme must be", nil, []string{"demo", "--nodes", "http://a"}},
	} {
		got := invoke(t, c.env, c.args...)
		require.Equal(t, exitUsage, got.status, c.args)
		require.Contains(t, got.err, c.says, c.args)
		require.Empty(t, got.out, c.args)
	}
}

func TestFlagsMayStandBeforeAndAfterTheName(t *testing.T) {
	t.Parallel()
	all := []string{"REDLOCK_NODES=redis://127.0.0.1:1"}
	for _, args := range [][]string{
		{"status", "--json", "n"},
		{"status", "n", "--json"},
		{"status", "--json", "--", "n"},
		{"status", "--nodes", "redis://127.0.0.1:1", "n", "--json"},
	} {
		got := invoke(t, all, args...)
		require.Equal(t, exitUnavailable, got.status, args)
		require.Contains(t, got.out, `"name": "n"`, args)
	}
}

func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"status", "--nodes", "redis://u:sesame@127.0.0.1:1", "n"},
		{"status", "--nodes", "redis://u:sesame@127.0.0.1:x", "n"},
		{"demo", "--nodes", "redis://u:sesame@127.0.0.1:1?db=x"},
		{"run", "--wait", "0", "--nodes", "redis://u:sesame@127.0.0.1:1", "n", "--", "true"},
	} {
		got := invoke(t, nil, args...)
		require.NotEqual(t, exitOK, got.status)
		require.NotContains(t, got.out+got.err, "sesame", args)
	}
}
