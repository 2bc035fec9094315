package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestAForgedClaimTouchesNoKeyOfAnotherApplication(t *testing.T) {
	t.Parallel()
	all := masters(t)
	for _, m := range all {
		m.Set("session", "logged in", time.Hour)
		t.Cleanup(func() { m.Del("session") })
	}
	text, err := redlock.Claim{Names: []string{"session"}, Token: "logged in", TTL: time.Minute}.MarshalText()
	require.NoError(t, err)
	for _, words := range [][]string{{"release", "-"}, {"extend", "--ttl", "10h", "-"}} {
		got := invokeWith(t, string(text), envOf(all), words...)
		require.Equal(t, cli.ExitUsage, got.status, got)
		require.Contains(t, got.err, "claim's token does not have the form of this library's tokens")
		require.NotContains(t, got.err, strings.TrimPrefix(string(text), "redlock1."))
	}
	for _, m := range all {
		value, _ := m.Get("session")
		require.Equal(t, "logged in", value)
		require.LessOrEqual(t, m.TTL("session"), time.Hour)
	}
}

func TestAllSubcommandsOfAClaimPrintTheSameID(t *testing.T) {
	t.Parallel()
	all := masters(t)
	env := envOf(all)
	got := invoke(t, env, "acquire", "--json", "--owner", "me", "job")
	require.Equal(t, cli.ExitOK, got.status, got)
	id := field(t, got.out, "id")
	require.Regexp(t, `^[0-9a-f]{24}$`, id)
	claim := field(t, got.out, "claim")
	allAnswered(t, all...)
	token, ok := all[0].Get("job")
	require.True(t, ok)
	for _, words := range [][]string{{"extend", "--json", "-"}, {"release", "--json", "-"}} {
		got := invokeWith(t, claim, env, words...)
		require.Equal(t, cli.ExitOK, got.status, got)
		require.Equal(t, id, field(t, got.out, "id"))
		conceals(t, words[0], got.out+got.err, token, claim)
	}
}

// field is that of an object that was printed.
func field(t *testing.T, object, name string) string {
	t.Helper()
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &o), object)
	return fmt.Sprint(o[name])
}
