package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// fileWith makes a file with that text.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTheMastersAreReadFromAFile(t *testing.T) {
	t.Parallel()
	list := nodesOf(masters(t))
	perLine := strings.ReplaceAll(list, ",", "\r\n \n") + "\n\n"
	for what, c := range map[string]struct {
		env, flags []string
	}{
		"as in --nodes":              {nil, []string{"--nodes-file", fileWith(t, list)}},
		"with a newline":             {nil, []string{"--nodes-file", fileWith(t, list+"\n")}},
		"one per line":               {nil, []string{"--nodes-file", fileWith(t, perLine)}},
		"named by the variable":      {[]string{"REDLOCK_NODES_FILE=" + fileWith(t, list)}, nil},
		"the flag before a variable": {[]string{"REDLOCK_NODES=http://x", "REDLOCK_NODES_FILE=/no"}, []string{"--nodes-file", fileWith(t, list)}},
		"--nodes before both":        {[]string{"REDLOCK_NODES=http://x", "REDLOCK_NODES_FILE=/no"}, []string{"--nodes", list}},
	} {
		got := invoke(t, c.env, append([]string{"status", "job"}, c.flags...)...)
		require.Equal(t, cli.ExitOK, got.status, "%s: %v", what, got)
		require.Contains(t, got.out, "job is free")
		require.Empty(t, got.err, what)
	}
}

func TestAListOfMastersThatCantBeReadIs64AndNotQuoted(t *testing.T) {
	t.Parallel()
	good := "redis://:sesame@127.0.0.1:1"
	file := fileWith(t, good)
	for _, c := range []struct {
		says string
		env  []string
		args []string
	}{
		{"--nodes and --nodes-file are both given", nil, []string{"--nodes", good, "--nodes-file", file}},
		{"are both set", []string{"REDLOCK_NODES=" + good, "REDLOCK_NODES_FILE=" + file}, nil},
		{"/no/such/file can't be read: no such file", nil, []string{"--nodes-file", "/no/such/file"}},
		{"REDLOCK_NODES_FILE: / can't be read: is a directory", []string{"REDLOCK_NODES_FILE=/"}, nil},
		{"is empty", nil, []string{"--nodes-file", fileWith(t, " \n\n")}},
		{"contains an empty URL", nil, []string{"--nodes-file", fileWith(t, good+",,"+good)}},
		{"the name of a file, not a URL", nil, []string{"--nodes-file", good}},
		{"no scheme: it begins with redis:", nil, []string{"--nodes-file", fileWith(t, "sesame\n")}},
		{"the port must be", nil, []string{"--nodes-file", fileWith(t, good+"\nredis://:sesame@x:0\n")}},
		{"listed twice", nil, []string{"--nodes-file", fileWith(t, good+"\n"+good)}},
	} {
		for _, words := range [][]string{
			{"status", "n"}, {"acquire", "n"}, {"release", someClaim}, {"doctor"}, {"bench"}, {"demo"}, {"run", "n", "--", "true"},
		} {
			got := invoke(t, c.env, append([]string{words[0]}, append(c.args, words[1:]...)...)...)
			require.Equal(t, cli.ExitUsage, got.status, "%s %v: %v", words[0], c.args, got)
			require.Contains(t, got.err, c.says, words[0])
			require.NotContains(t, got.out+got.err, "sesame")
		}
	}
}

func TestAPasswordOnTheCommandLineIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "a password in --nodes can be read by other users of this machine: use --nodes-file"
	for url, warned := range map[string]bool{
		"redis://u:sesame@127.0.0.1:1":                                         true,
		"redis://:sesame@127.0.0.1:1":                                          true,
		"redis+sentinel://127.0.0.1:1/m?sentinel_password=sesame":              true,
		"redis://127.0.0.1:1":                                                  false,
		"redis://u:@127.0.0.1:1":                                               false,
		"redis+sentinel://127.0.0.1:1,127.0.0.1:2/m?sentinel_user=&max_age=1s": false,
	} {
		got := invoke(t, nil, "status", "--nodes", url, "n")
		require.Equal(t, warned, strings.Contains(got.err, warning), "%s: %v", url, got)
		require.LessOrEqual(t, strings.Count(got.err, "--nodes-file"), 1)
		require.NotContains(t, got.out+got.err, "sesame")
		for _, env := range [][]string{{"REDLOCK_NODES=" + url}, {"REDLOCK_NODES_FILE=" + fileWith(t, url)}} {
			require.NotContains(t, invoke(t, env, "status", "n").err, "password in")
		}
	}
}

func TestEmbeddedMastersGoWithNoFlagOfOthers(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"doctor", "--embedded"}, {"bench", "--embedded"}} {
		for _, flag := range []string{"--nodes", "--nodes-file", "--cacert", "--cert", "--key"} {
			got := invoke(t, nil, append(words, flag, "x")...)
			require.Equal(t, cli.ExitUsage, got.status)
			require.Contains(t, got.err, "--embedded uses its own nodes")
		}
	}
}

// secured has the nodes ask for a password, which is in the URLs that it returns.
func secured(all []*fakeredis.Master, user, password string) string {
	var urls []string
	for _, m := range all {
		m.RequireAuth(user, password)
		urls = append(urls, "redis://"+user+":"+password+"@"+m.Addr()+"?name="+m.Name())
	}
	return strings.Join(urls, ",")
}
