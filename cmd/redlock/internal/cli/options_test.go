package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnErrorOfTheLibraryNamesFlags(t *testing.T) {
	for text, want := range map[string]string{
		`WithOwner("a): \"b"): at most 64 printable bytes`:  `--owner "a): \"b": at most 64 printable bytes`,
		"WithRestartGuard(1ms): whole milliseconds":         "--guard 1ms: whole milliseconds",
		"TTL of 48h: must be from 10ms to 24h (WithMaxTTL)": "TTL of 48h: must be from 10ms to 24h (the most without --guard)",
		"use WithRestartGuard (redlock --guard) with a":     "use --guard with a",
		"WithMinHold of 25h0m0s: must be":                   "--min-hold of 25h0m0s: must be",
		"WithMaxHold(1s) is less than WithMinHold(2s)":      "WithMaxHold(1s) is less than --min-hold 2s",
		"a node WithOut": "a node WithOut",
	} {
		require.Equal(t, want, withFlags(text))
	}
}
