package command_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

func TestATokenHas130RandomBits(t *testing.T) {
	const draws = 100_000
	seen := make(map[string]bool, draws)
	var counts [26][256]int
	for range draws {
		token := command.NewToken("")
		require.Len(t, token, len(counts))
		require.False(t, seen[token])
		seen[token] = true
		for i := range len(token) {
			counts[i][token[i]]++
		}
	}
	// A token has 26 places of 32 letters. Each letter occurs equally often at each place (within
	// six standard deviations of 1 in 32).
	const mean = draws / 32
	for i := range counts {
		for _, letter := range []byte(base32) {
			require.InDelta(t, mean, counts[i][letter], 6*math.Sqrt(mean), "%c at %d", letter, i)
		}
	}
}

func TestATokenCarriesItsOwnersLabelAndMaskShowsNothingElse(t *testing.T) {
	for _, owner := range []string{"billing", "host:42", ":", "a:", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "日本"} {
		token := command.NewToken(owner)
		random := token[len(owner)+1:]
		require.Equal(t, owner+":", token[:len(owner)+1])
		require.Len(t, random, 26)
		require.Equal(t, owner, command.Owner(token))
		require.Equal(t, owner+":…", command.Mask(token))
		for i := range len(random) - 3 {
			require.NotContains(t, strings.TrimPrefix(command.Mask(token), owner), random[i:i+4])
		}
	}
	require.Empty(t, command.Owner(command.NewToken("")))
	require.Equal(t, "…", command.Mask(command.NewToken("")))
}

// Tokens of other clients have no label, so none of their characters is shown.
func TestForeignTokensAreMasked(t *testing.T) {
	for _, token := range []string{
		"8743c9c0-0795-4907-87fd-6c719a6b4586:1", // Redisson: uuid and thread
		"8743c9c0-0795-4907-87fd-6c719a6b4586",
		"8743c9c007954907-87fd6c719a6b4586:abcdefghijklmnopqrstuvwxyz", // 26, but not of our letters
		"secret:ABCDEFGHIJKLMNOPQRSTUVWXY",                             // 25
		"secret:ABCDEFGHIJKLMNOPQRSTUVWXYZA",                           // 27
		"secret:ABCDEFGHIJKLMNOPQRSTUVWXY1",                            // 26, with a 1
		"vUaK0H9tNXAZqK8q1vUaKQ==", "qL9/8WmT6kTgYh1bC2sYDw==",         // redsync
		":ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", // no label
		"1", ":", "::", "\x00\xff", strings.Repeat(":", 27), strings.Repeat("A", 1000),
	} {
		require.Empty(t, command.Owner(token), token)
		require.Equal(t, "…", command.Mask(token), token)
	}
	require.Empty(t, command.Mask(""), "nothing to hide")
}

func FuzzMask(f *testing.F) {
	f.Add("uuid:1")
	f.Add("owner:ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	f.Add("\x7f:22222222222222222222222222")
	f.Fuzz(func(t *testing.T, token string) {
		owner := command.Owner(token)
		if owner == "" {
			require.Contains(t, []string{"", "…"}, command.Mask(token))
			return
		}
		label := command.Label(token)
		require.Len(t, token, len(label)+1+26)
		require.True(t, strings.HasPrefix(token, label+":"))
		require.Equal(t, oneline.Printable(label), owner)
		require.Equal(t, owner+":…", command.Mask(token))
	})
}

// Any client that may write to a node can choose the label.
func TestTheLabelOfATokenIsPrintable(t *testing.T) {
	const random = ":ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	long := strings.Repeat("z", 10<<10)
	require.Equal(t, `\x1b[31m\x0a\u202e`, command.Owner("\x1b[31m\n\u202e"+random))
	require.Equal(t, `\x1b:…`, command.Mask("\x1b"+random))
	require.Less(t, len(command.Owner(long+random)), 520)
	require.Less(t, len(command.Mask(long+random)), 520)
	require.True(t, command.WellFormed("\x1b"+random))
	m := guard.Marker{Node: "\x1b\u202e" + long}
	different := strings.Join((&guard.Settings{}).Mismatches(m, "n"), "; ")
	require.Contains(t, different, `\\x1b\\u202ezz`)
	require.Less(t, len(different), 700)
}
