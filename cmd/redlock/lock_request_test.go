package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// The first attempt finds the holder. The deadline cuts off the query of the next one, after a quorum
// has refused it.
func TestAWaitThatEndsDuringItsQueryNamesTheHolder(t *testing.T) {
	t.Parallel()
	script := map[string]string{}
	for _, s := range command.Scripts() {
		script[s.Hash] = s.Name
	}
	all := masters(t)
	holdAll(all, "job", "other:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Minute)
	for _, m := range all {
		attempts := 0
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if cmd == "EVALSHA" && script[args[0]] == "acquire+fence" {
				attempts++
			}
			// What is handled without a reply is never answered.
			return "", cmd == "EVALSHA" && script[args[0]] == "inspect" && attempts > 1
		})
		t.Cleanup(func() { m.Del("job") })
	}
	got := invoke(t, envOf(all), "acquire", "--wait", "300ms", "job")
	require.Equal(t, exitHeld, got.status, got)
	require.Regexp(t, `(?m)^redlock: job: held by "other"`, got.err)
}

// A name may come from data.
func TestANameIsPrintedWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	all := masters(t)
	name := "job\x1b[31m\nx"
	for _, m := range all {
		m.Set(name, "somebody", time.Minute)
	}
	for _, args := range [][]string{{"acquire", "--wait", "0", name}, {"run", "--wait", "0", name, "--", "true"}, {"status", name}} {
		got := invoke(t, envOf(all), args...)
		require.NotContains(t, got.out+got.err, "\x1b")
		require.Contains(t, got.out+got.err, `job\x1b[31m\x0ax`)
	}
	for _, m := range all {
		m.Del(name)
	}
}
