//go:build unix && !aix && !solaris

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// startIn runs redlock in an environment with those entries, and without REDLOCK_NODES if it
// is not among them.
func startIn(t *testing.T, entries []string, words ...string) *redlockProcess {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return startProgram(t, nil, "env", append(append(entries, path), words...)...)
}

// told is what COMMAND sees of redlock's variables, by name.
func variables(t *testing.T, p *redlockProcess) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for line := p.line(); line != "end"; line = p.line() {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "REDLOCK_") {
			vars[name] = value
		}
	}
	return vars
}

func TestACommandGetsItsLockInVariablesAndInheritsNoSecret(t *testing.T) {
	t.Parallel()
	all := masters(t)
	list := secured(all, "app", password)
	file := fileWith(t, list)
	outer := []string{
		"REDLOCK_TOKEN=outer", "REDLOCK_FENCE=1", "REDLOCK_ID=outer", "REDLOCK_NAME=outer", "REDLOCK_GUARD=", "REDLOCK_PREFIX=p:",
	}
	for _, c := range []struct{ env, flags []string }{
		{env: []string{"REDLOCK_NODES=" + list}},
		{env: []string{"REDLOCK_NODES_FILE=" + file}},
		{env: []string{"REDLOCK_NODES=redis://:" + password + "@x"}, flags: []string{"--nodes-file", file}},
		{env: []string{"REDLOCK_NODES=" + list}, flags: []string{"--no-fence"}},
		{env: []string{"REDLOCK_NODES=" + list}, flags: []string{"--export-token"}},
	} {
		words := append(append([]string{"run"}, c.flags...), "job", "--", "sh", "-c", "env; echo end; read x")
		p := startIn(t, append(outer, c.env...), words...)
		vars := variables(t, p)
		token := ""
		for _, m := range all {
			if held, ok := m.Get("p:job"); ok {
				token = held
			}
		}
		p.say("")
		require.Equal(t, 0, p.status())
		conceals(t, "stderr", p.gone()+p.messages(), token)

		require.Equal(t, "job", vars["REDLOCK_NAME"])
		require.Regexp(t, `^[0-9a-f]{24}$`, vars["REDLOCK_ID"])
		fence, fenced := vars["REDLOCK_FENCE"]
		require.True(t, fenced)
		if len(c.flags) == 1 && c.flags[0] == "--no-fence" {
			require.Empty(t, fence)
		} else {
			require.Regexp(t, `^\d{10,}$`, fence)
		}
		if len(c.flags) == 1 && c.flags[0] == "--export-token" {
			require.Equal(t, token, vars["REDLOCK_TOKEN"])
			continue
		}
		require.NotContains(t, vars, "REDLOCK_TOKEN")
		require.NotContains(t, vars, "REDLOCK_NODES")
		require.NotContains(t, vars, "REDLOCK_NODES_FILE")
		for name, value := range vars {
			conceals(t, name, value, token)
		}
	}
}

func TestARunThatFailsPrintsNoSecretAndItsCommandSeesNone(t *testing.T) {
	t.Parallel()
	for what, breaks := range failures {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			list := failing(t, breaks)
			p := startIn(t, []string{"REDLOCK_NODES=" + list}, "run", "--wait", "300ms", "job", "--", "env")
			p.status()
			conceals(t, "run", p.gone()+p.messages())

			w := startIn(t, []string{"REDLOCK_NODES=" + list}, "status", "--watch", "--json", "--interval", "100ms", "job")
			line := w.line()
			w.signal(syscall.SIGTERM)
			w.status()
			conceals(t, "watch", line+w.gone()+w.messages())
		})
	}
}

// A lock that is lost is the subject of several messages.
func TestALossIsReportedWithoutTheToken(t *testing.T) {
	t.Parallel()
	all := masters(t)
	path, err := userBinary() // it waits for its cli.CloseTimeout
	require.NoError(t, err)
	p := startProgram(t, nil, "env", "REDLOCK_NODES="+secured(all, "app", password), path,
		"run", "--ttl", "12s", "job", "--", "sh", "-c", "echo go; sleep 60")
	p.line()
	var tokens []string
	for _, m := range all {
		if token, ok := m.Get("job"); ok {
			tokens = append(tokens, token)
		}
		m.Hook(repeatsArguments)
		m.Set("job", secretToken, time.Hour)
	}
	require.NotEmpty(t, tokens)
	require.Equal(t, cli.ExitLost, p.status())
	conceals(t, "loss", p.gone()+p.messages(), tokens...)
	for _, m := range all {
		m.Hook(nil)
		m.FlushAll()
	}
}
