package wire_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

func TestATokenHas130RandomBits(t *testing.T) {
	const draws = 100_000
	seen := make(map[string]bool, draws)
	var counts [26][256]int
	for range draws {
		token := wire.NewToken("")
		require.Len(t, token, len(counts))
		require.False(t, seen[token])
		seen[token] = true
		for i := range len(token) {
			counts[i][token[i]]++
		}
	}
	// 26 places of 32 letters, each letter as often as any other: no place is fixed
	// and none leans to a letter (six standard deviations of 1 in 32).
	const mean = draws / 32
	for i := range counts {
		for _, letter := range []byte(base32) {
			require.InDelta(t, mean, counts[i][letter], 6*math.Sqrt(mean), "%c at %d", letter, i)
		}
	}
}

func TestATokenCarriesItsOwnersLabelAndMaskShowsNothingElse(t *testing.T) {
	for _, owner := range []string{"billing", "host:42", ":", "a:", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "日本"} {
		token := wire.NewToken(owner)
		random := token[len(owner)+1:]
		require.Equal(t, owner+":", token[:len(owner)+1])
		require.Len(t, random, 26)
		require.Equal(t, owner, wire.Owner(token))
		require.Equal(t, owner+":…", wire.Mask(token))
		for i := range len(random) - 3 {
			require.NotContains(t, strings.TrimPrefix(wire.Mask(token), owner), random[i:i+4])
		}
	}
	require.Empty(t, wire.Owner(wire.NewToken("")))
	require.Equal(t, "…", wire.Mask(wire.NewToken("")))
}

// Tokens of other clients have no label: none of their characters is shown.
func TestForeignTokensAreMaskedWhole(t *testing.T) {
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
		require.Empty(t, wire.Owner(token), token)
		require.Equal(t, "…", wire.Mask(token), token)
	}
	require.Empty(t, wire.Mask(""), "nothing to hide")
}

func FuzzMask(f *testing.F) {
	f.Add("uuid:1")
	f.Add("owner:ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	f.Add("\x7f:22222222222222222222222222")
	f.Fuzz(func(t *testing.T, token string) {
		owner := wire.Owner(token)
		if owner == "" {
			require.Contains(t, []string{"", "…"}, wire.Mask(token))
			return
		}
		label := wire.Label(token)
		require.Len(t, token, len(label)+1+26)
		require.True(t, strings.HasPrefix(token, label+":"))
		require.Equal(t, wire.Printable(label), owner)
		require.Equal(t, owner+":…", wire.Mask(token))
	})
}
