package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/claim"
)

func TestBothFormsKeepAClaim(t *testing.T) {
	c := claim.Claim{Names: []string{"a", "b c"}, Token: "T", Fence: 1 << 52, TTL: 1500 * time.Millisecond}
	text, err := c.Text()
	require.NoError(t, err)
	require.NotContains(t, string(text), " ")
	parsed, err := claim.ParseText(text)
	require.NoError(t, err)
	require.Equal(t, c, parsed)
	object, err := c.JSON()
	require.NoError(t, err)
	require.JSONEq(t, `{"names": ["a", "b c"], "token": "T", "fence": 4503599627370496, "ttl_ms": 1500}`, string(object))
	parsed, err = claim.ParseJSON(object)
	require.NoError(t, err)
	require.Equal(t, c, parsed)
}

// An error shows nothing of the form, which contains a token.
func TestADamagedFormIsRefusedAndNotShown(t *testing.T) {
	for form, words := range map[string]string{
		"secret":            "a claim begins with",
		"redlock1.!secret":  "damaged claim",
		"redlock1.c2VjcmV0": "damaged claim",
	} {
		_, err := claim.ParseText([]byte(form))
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "secret")
	}
	for form, words := range map[string]string{
		`secret`:              "damaged claim",
		`{"token": "secret"}`: "without ttl_ms",
		`{"token": "secret", "ttl": 1, "ttl_ms": 1}`:         "of an older version",
		`{"token": "secret", "ttl_ms": -1}`:                  "out of range",
		`{"token": "secret", "ttl_ms": 9223372036854775807}`: "out of range",
	} {
		_, err := claim.ParseJSON([]byte(form))
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestWhatJSONCannotRepresentIsRefused(t *testing.T) {
	for _, c := range []claim.Claim{{Names: []string{"\xff"}}, {Token: "\xff"}, {TTL: 1}, {TTL: -time.Second}} {
		_, err := c.JSON()
		require.Error(t, err)
	}
}
