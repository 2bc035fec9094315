package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/claim"
)

func TestTheTextKeepsAClaim(t *testing.T) {
	c := claim.Claim{Names: []string{"a", "b c"}, Token: "T", Fence: 1 << 52, TTL: 1500 * time.Millisecond}
	text, err := c.Text()
	require.NoError(t, err)
	require.NotContains(t, string(text), " ")
	parsed, err := claim.ParseText(text)
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
}
