package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

const (
	password    = "sesame-7f3a9c"
	secretToken = "somebody:SECRETSECRETSECRETSECRETSE"
)

// conceals fails where a text shows a secret: the password, the random part of a token, or a
// claim, which contains one.
func conceals(t *testing.T, what, text string, tokens ...string) {
	t.Helper()
	require.NotContains(t, text, password, what)
	require.NotRegexp(t, `[A-Z2-7]{26}`, text, what+": the random part of a token")
	for _, token := range append(tokens, secretToken, someClaim) {
		secret := token[max(strings.LastIndexByte(token, ':'), strings.LastIndexByte(token, '.'))+1:]
		require.NotContains(t, text, secret, what)
	}
}

// failures are what becomes of nodes that ask for a password.
var failures = map[string]func(m *fakeredis.Master){
	"none": func(*fakeredis.Master) {},
	"held": func(m *fakeredis.Master) { m.Set("job", secretToken, time.Hour) },
	"down": func(m *fakeredis.Master) { m.Stop() },
	"another password": func(m *fakeredis.Master) {
		m.RequireAuth("app", "another")
	},
	"a server that repeats the password": func(m *fakeredis.Master) {
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return "-WRONGPASS invalid: '" + strings.Join(args, "' '") + "'", cmd == "AUTH"
		})
	},
	"a server that repeats arguments": func(m *fakeredis.Master) { m.Hook(repeatsArguments) },
	"a replica":                       func(m *fakeredis.Master) { m.SetInfo("role", "slave") },
	"a key that is no lock":           func(m *fakeredis.Master) { m.PushList("job") },
}

// repeatsArguments is a server that does not know the commands of locks, and repeats them.
func repeatsArguments(_ int64, cmd string, args []string) (string, bool) {
	return "-ERR unknown command '" + cmd + "' with '" + strings.Join(args, "' '") + "'", cmd == "EVALSHA" || cmd == "SET"
}

// failing starts nodes with a password that fail in one way, and returns their URLs.
func failing(t *testing.T, breaks func(m *fakeredis.Master)) (list string) {
	t.Helper()
	all := masters(t)
	list = secured(all, "app", password)
	t.Cleanup(func() {
		for _, m := range all {
			m.Hook(nil)
			m.FlushAll()
		}
	})
	for _, m := range all {
		breaks(m)
	}
	return list
}

// Every subcommand, on nodes that fail in every way; --json and the list's source vary along.
func TestNoSubcommandPrintsAPasswordOrAToken(t *testing.T) {
	t.Parallel()
	for what, breaks := range failures {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			list := failing(t, breaks)
			env, file := []string{"REDLOCK_NODES=" + list}, fileWith(t, list)
			for _, words := range [][]string{
				{"status", "job"},
				{"list"},
				{"break", "job"},
				{"acquire", "--wait", "0", "job"},
				{"extend", someClaim},
				{"release", someClaim},
				{"doctor"},
				{"doctor", "--guard", "1h", "--admit"},
				{"acquire", "--guard", "1h", "--wait", "0", "job"},
				{"bench", "--count", "3"},
				{"demo"},
				{"doctor", "--guard", "1s", "--begin-guard"},
			} {
				isLong := words[0] == "demo" || words[len(words)-1] == "--begin-guard" && what == "a server that repeats arguments"
				if isLong && !strings.Contains(what, "password") {
					continue // it makes all its attempts, or waits for as long as it can
				}
				for _, got := range []outcome{
					invoke(t, env, words...),
					invoke(t, nil, append(words, "--json", "--nodes-file", file)...),
				} {
					text := got.out + got.err
					if words[0] == "acquire" && got.status == cli.ExitOK {
						text = got.err // the claim contains the token: that is what it is for
					}
					conceals(t, strings.Join(words, " "), text)
				}
			}
		})
	}
}

// A word that is not where it belongs is quoted, as what is wrong, without the password.
func TestAURLInTheWrongPlaceIsNotQuotedWithItsPassword(t *testing.T) {
	t.Parallel()
	url := "redis://app:" + password + "@127.0.0.1:1"
	for _, words := range [][]string{
		{url},
		{"redis://:a " + password + "@b"},
		{"status", "--" + url},
		{"status", "--interval", url, "n"},
		{"status", "--nodes-file", url, "n"},
		{"status", "--cacert", url, "--nodes", "rediss://a", "n"},
		{"run", url, "true"},
		{"acquire", "--owner", url, "--nodes", "redis://a", "n"},
		{"acquire", "--guard", url, "n"},
		{"completion", url},
	} {
		got := invoke(t, nil, words...)
		require.Equal(t, cli.ExitUsage, got.status, got)
		conceals(t, words[0], got.out+got.err)
	}
	got := invoke(t, []string{"REDLOCK_GUARD=" + url, "REDLOCK_NODES=" + url}, "bench")
	require.Equal(t, cli.ExitUsage, got.status, got)
	conceals(t, "REDLOCK_GUARD", got.err)
}
