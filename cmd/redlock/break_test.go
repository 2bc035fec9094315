package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// listener subscribes to the releases of a name on a node.
func listener(t *testing.T, m *fakeredis.Master, name string) redis.PubSubConn {
	t.Helper()
	raw, err := m.Dial(t.Context(), "", "")
	require.NoError(t, err)
	c := redis.PubSubConn{Conn: redis.NewConn(raw, patience, 0)}
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Subscribe("redlock:free:"+name))
	require.IsType(t, redis.Subscription{}, c.Receive())
	return c
}

func TestABrokenLockIsFreeAnnouncedAndItsFenceStays(t *testing.T) {
	t.Parallel()
	all := listing(t)
	first, text := acquired(t, all, envOf(all), "--owner", "anna", "job")
	holdAll(all, "other", token2, time.Hour)
	heard := listener(t, all[0], "job")
	got := invoke(t, envOf(all), "break", "--yes", "job")
	require.Equal(t, cli.ExitOK, got.status, got)
	require.Empty(t, got.err)
	require.Regexp(t, `^job is broken\. Its holder, "anna" \(id [0-9a-f]{24}\), may believe for (30s|[12]\d[.0-9]*s) more that it holds it,\nor for its whole TTL`, got.out)
	require.IsType(t, redis.Message{}, heard.Receive())
	require.NoError(t, heard.Close())
	eventually(t, "it is free", func() bool { return slices.Equal([]string{"other", "other", "other"}, locks(all...)) })
	require.Equal(t, cli.ExitLost, invokeWith(t, text, envOf(all), "release", "-").status)
	next, text := acquired(t, all, envOf(all), "job")
	require.Greater(t, next.Fence, first.Fence)
	require.Equal(t, silent, invokeWith(t, text, envOf(all), "release", "-"))
}

func TestABrokenLockIsReportedToPrograms(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "app/a*b", token, time.Hour)
	holdAll(all, "app/axb", token, time.Hour)
	got := invoke(t, envOf(all), "break", "--json", "--yes", "--prefix", "app/", "a*b")
	require.Equal(t, cli.ExitOK, got.status, got)
	var b map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &b))
	require.InDelta(t, time.Hour.Milliseconds(), b["may_believe_ms"], 60_000)
	delete(b, "may_believe_ms")
	require.Equal(t, map[string]any{"name": "a*b", "broken": true, "owner": "anna", "id": command.ID(token)}, b)
	allAnswered(t, all...)
	require.Equal(t, []string{"app/axb", "app/axb", "app/axb"}, locks(all...))
}

func TestOnlyAYesBreaksALock(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	for _, answer := range []string{"\n", "n\n", "no\n", "yesterday\n", strings.Repeat("y", 100)} {
		got := invokeWith(t, answer, envOf(all), "break", "job")
		require.Equal(t, cli.ExitFailed, got.status, answer)
		require.Empty(t, got.out)
		require.Regexp(t, `^redlock: job is held by "anna" for \S+, on a, b, c \(id [0-9a-f]{24}\)\nIts holder is not stopped\. Break the lock\? \[y/N\] `+
			`redlock: job is not broken\n$`, got.err)
		conceals(t, "break", got.err, token)
		require.Len(t, locks(all...), 3)
	}
	got := invokeWith(t, "", envOf(all), "break", "job")
	require.Equal(t, cli.ExitFailed, got.status)
	require.Contains(t, got.err, " [y/N] \nredlock: there was no answer: --yes breaks a lock without a question\nredlock: job is not broken\n")
	require.Len(t, locks(all...), 3)
	got = invokeWith(t, "no\n", envOf(all), "break", "--json", "job")
	require.Regexp(t, `^{"error":"job is not broken","code":"declined","owner":"anna","id":"[0-9a-f]{24}","left_ms":\d+}\n$`, got.out)
	got = invokeWith(t, "Yes\n", envOf(all), "break", "job")
	require.Equal(t, cli.ExitOK, got.status, got)
	releasedEverywhere(t, all...)
}

func TestWhatIsNoHeldLockIsNotBroken(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		status int
		says   string
		fill   func(all []*fakeredis.Master)
	}{
		"free":          {cli.ExitFailed, "no client holds it", func([]*fakeredis.Master) {}},
		"on a minority": {cli.ExitFailed, "no client holds it", func(all []*fakeredis.Master) { holdAll(all[:1], "job", token, time.Hour) }},
		"a split vote": {cli.ExitFailed, "no client holds it", func(all []*fakeredis.Master) {
			holdAll(all[:1], "job", token, time.Hour)
			holdAll(all[1:2], "job", token2, time.Hour)
		}},
		"a list": {cli.ExitFailed, "not touched: its value is no token\n", func(all []*fakeredis.Master) {
			for _, m := range all {
				m.PushList("job")
			}
		}},
		"another library's": {cli.ExitFailed, "not touched: its value is no token\n", func(all []*fakeredis.Master) { holdAll(all, "job", "q83vEjRWeJA=", time.Hour) }},
		"a plain value":     {cli.ExitFailed, "not touched: its value is no token\n", func(all []*fakeredis.Master) { holdAll(all, "job", "x", 0) }},
		"without an expiry": {cli.ExitFailed, "not touched: it has no expiry\n", func(all []*fakeredis.Master) { holdAll(all, "job", token, 0) }},
		"a token with a label that this library does not make": {cli.ExitFailed, "nothing was deleted: its key is no lock of this library", func(all []*fakeredis.Master) {
			holdAll(all, "job", "a b:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
		}},
		"unclear": {cli.ExitUnavailable, "too few nodes answered to tell", func(all []*fakeredis.Master) {
			holdAll(all[:2], "job", token, time.Hour)
			all[0].Stop()
		}},
	} {
		all := listing(t)
		c.fill(all)
		before := len(locks(all...))
		got := invoke(t, envOf(all), "break", "--yes", "job")
		require.Equal(t, c.status, got.status, "%s: %v", what, got)
		require.Contains(t, got.err, c.says, what)
		require.Empty(t, got.out, what)
		allAnswered(t, all...)
		require.Len(t, locks(all...), before, what)
	}
}

func TestABreakOnAMinorityFailsAndDeletesNothing(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Hour)
	all[0].Stop()
	all[1].Stop()
	got := invoke(t, envOf(all), "break", "--yes", "job")
	require.Equal(t, cli.ExitUnavailable, got.status)
	require.Contains(t, got.err, "no quorum of nodes could be reached: a: ")
	allAnswered(t, all...)
	require.Len(t, locks(all[2]), 1)
	require.NoError(t, all[0].Restart(true))
	got = invoke(t, envOf(all), "break", "--yes", "job")
	require.Equal(t, cli.ExitOK, got.status, "two nodes are enough: %v", got)
	releasedEverywhere(t, all[0], all[2])
}

func TestABreakUnderTheGuardNeedsTheGuard(t *testing.T) {
	t.Parallel()
	all := listing(t)
	require.Equal(t, cli.ExitOK, invoke(t, envOf(all), "doctor", "--guard", "1h", "--admit").status)
	acquired(t, all, envOf(all), "--guard", "1h", "job")
	require.Equal(t, cli.ExitConfig, invoke(t, envOf(all), "break", "--yes", "job").status)
	allAnswered(t, all...)
	require.Len(t, locks(all...), 3)
	require.Equal(t, cli.ExitOK, invoke(t, envOf(all), "break", "--guard", "1h", "--yes", "job").status)
	releasedEverywhere(t, all...)
}
