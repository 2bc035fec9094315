package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

func TestAVersionSaysWhatItWasBuiltFrom(t *testing.T) {
	t.Parallel()
	v := versionOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}, true)
	here := runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	require.Equal(t, "redlock v1.2.3 (revision 0123456789ab of 2026-01-02T03:04:05Z, modified) "+here, v.String())
	require.Equal(t, "redlock (devel) "+here, versionOf(&debug.BuildInfo{}, true).String())
	require.Equal(t, "redlock unknown "+here, versionOf(nil, false).String())
}

func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}, {"-version"}} {
		got := invoke(t, nil, args...)
		require.Equal(t, outcome{status: cli.ExitOK, out: got.out}, got)
		require.Regexp(t, `^redlock \S+ .*go\d\S* \w+/\w+\n$`, got.out)
	}
	got := invoke(t, nil, "version", "--json")
	require.Equal(t, cli.ExitOK, got.status)
	require.Equal(t, got, invoke(t, nil, "--version", "--json"))
	require.Equal(t, got, invoke(t, nil, "--json", "--version"))
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &v))
	require.Equal(t, runtime.Version(), v["go"])
	for field := range v {
		require.Contains(t, versionEntry().Long, "  "+field)
	}
}
