//go:build unix && !aix && !solaris

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched starts a watch for programs.
func watched(t *testing.T, holding int, more ...string) (p *redlockProcess, next func() map[string]any, set func(token string)) {
	t.Helper()
	all := trio(t, holding)
	p = start(t, all, append([]string{"status", "--watch", "--interval", "100ms", "job"}, more...)...)
	next = func() (s map[string]any) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(p.line()), &s))
		return s
	}
	return p, next, func(token string) {
		if token == "" {
			setFree(all, "job")
			return
		}
		holdAll(all, "job", token, time.Hour)
	}
}

// settled skips what is seen while nodes are changed one after the other. It is bounded
// by line, which fails when nothing comes.
func awaitState(next func() map[string]any, is string) map[string]any {
	for {
		if s := next(); s["state"] == is {
			return s
		}
	}
}

func TestAWatchForProgramsPrintsALineForEachChange(t *testing.T) {
	t.Parallel()
	p, next, set := watched(t, 3, "--json")
	s := next()
	require.Equal(t, "job", s["name"])
	require.Equal(t, "held", s["state"])
	require.Equal(t, "anna", s["owner"])
	at, err := time.Parse(time.RFC3339Nano, s["at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	set("")
	require.NotContains(t, awaitState(next, "free"), "owner")
	set("ben:ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	require.Equal(t, "ben", awaitState(next, "held")["owner"])
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.status())
	require.NotContains(t, p.gone(), "ABCDEF")
	require.Empty(t, p.messages())
}

func TestAnExtensionIsNoNewsToAWatch(t *testing.T) {
	t.Parallel()
	all := trio(t, 3)
	p := start(t, all, "status", "--watch", "--json", "--interval", "100ms", "job")
	p.line()
	seen := all[0].Commands()["EVALSHA"]
	holdAll(all, "job", token, 2*time.Hour)
	eventually(t, "it looks again", func() bool { return all[0].Commands()["EVALSHA"] >= seen+3 })
	p.signal(syscall.SIGTERM)
	require.Equal(t, 0, p.status())
	require.Empty(t, p.gone())
}

func TestAWatchContinuesWithoutAQuorumAndSeesItReturn(t *testing.T) {
	t.Parallel()
	all := trio(t, 0)
	all[0].Stop()
	all[1].Stop()
	p := start(t, all, "status", "--watch", "--json", "--interval", "100ms", "job")
	next := func() (s map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(p.line()), &s))
		return s
	}
	require.Equal(t, "unclear", next()["state"])
	require.NoError(t, all[0].Restart(false))
	require.NoError(t, all[1].Restart(false))
	awaitState(next, "free")
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.status())
}

func TestAWatchedListInAFileHasItsHeadAboveItsColumns(t *testing.T) {
	t.Parallel()
	p := start(t, trio(t, 3), "list", "--watch", "--interval", "100ms")
	require.Regexp(t, `^\d\d:\d\d:\d\d$`, p.line())
	head, row := p.line(), p.line()
	require.True(t, strings.HasPrefix(head, "NAME "), head) // line cuts the spaces in front of it
	row, marked := strings.CutPrefix(row, "● ")
	require.True(t, marked)
	require.Equal(t, strings.Index(head, "OWNER"), strings.Index(row, `"`), row)
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.status())
}

func TestAListIsWatched(t *testing.T) {
	t.Parallel()
	all := trio(t, 3)
	p := start(t, all, "list", "-w", "--json", "--interval", "100ms")
	next := func() (l listed, at string) {
		line := p.line()
		var timed map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.NoError(t, json.Unmarshal([]byte(line), &timed))
		at, _ = timed["at"].(string)
		return l, at
	}
	until := func(complete bool, names ...string) {
		t.Helper()
		for { // bounded by line
			if l, _ := next(); l.Complete == complete && slices.Equal(names, l.names()) {
				return
			}
		}
	}
	l, at := next()
	require.Equal(t, []string{"job"}, l.names())
	require.True(t, l.Complete)
	_, err := time.Parse(time.RFC3339Nano, at)
	require.NoError(t, err)
	t.Cleanup(func() { setFree(all, "ledger") })
	holdAll(all, "ledger", token2, time.Hour)
	until(true, "job", "ledger")
	all[0].Stop()
	all[1].Stop()
	until(false)
	require.NoError(t, all[0].Restart(true))
	require.NoError(t, all[1].Restart(true))
	until(true, "job", "ledger")
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.status())
	require.Empty(t, p.messages())
}

func TestAWatchInAFileIsReadable(t *testing.T) {
	t.Parallel()
	p, _, set := watched(t, 3)
	require.Regexp(t, `^\d\d:\d\d:\d\d  job is held by "anna" for `, p.line())
	for range 5 {
		p.line()
	}
	require.Empty(t, p.line())
	set("")
	for line := p.line(); !strings.HasSuffix(line, "  job is free"); line = p.line() { // bounded by line
		require.NotContains(t, line, "\x1b")
	}
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.status())
}

func TestAWatchEndsWhenItsReaderIsGone(t *testing.T) {
	t.Parallel()
	p, _, set := watched(t, 3, "--json")
	p.line()
	require.NoError(t, p.out.Close())
	set("")
	require.Equal(t, 0, p.status())
}
