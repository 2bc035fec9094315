package command_test

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/rules.md rule 26.
func TestAScriptsHashIsTheSHA1OfItsSource(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range command.Scripts() {
		sum := sha1.Sum([]byte(s.Source))
		require.Equal(t, hex.EncodeToString(sum[:]), s.Hash, s.Name)
		require.False(t, seen[s.Name], "%s twice", s.Name)
		seen[s.Name] = true
	}
	require.Len(t, seen, 26)
}

// All that can fail is done before the first write. No command that reads or checks follows one
// that writes, except within the loop that writes.
func TestScriptsReadBeforeTheyWrite(t *testing.T) {
	for _, s := range command.Scripts() {
		_, writing, _ := cut(s.Source, regexp.MustCompile(`redis\.call\('(SET|DEL|PEXPIRE)'`))
		require.NotContains(t, writing, "'GET'", s.Name)
		require.NotContains(t, writing, "'EXISTS'", s.Name)
		require.NotContains(t, writing, "error_reply", s.Name)
	}
}

// docs/dev/hazards.md H29: a number that Lua prints loses digits.
func TestScriptsPassNumbersOnAsTheyCame(t *testing.T) {
	for _, s := range command.Scripts() {
		for _, written := range regexp.MustCompile(`'(?:PX|PEXPIRE)',.*\)`).FindAllString(s.Source, -1) {
			require.Regexp(t, `ARGV\[2\]|ARGV\[at\+1\]|life\)`, written, s.Name)
		}
		require.NotContains(t, s.Source, "tostring", s.Name)
	}
}

func cut(text string, at *regexp.Regexp) (before, after string, found bool) {
	where := at.FindStringIndex(text)
	if where == nil {
		return text, "", false
	}
	return text[:where[0]], strings.TrimSpace(text[where[0]:]), true
}
