package redlock

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someClaim = Claim{
	Names: []string{"a", "invoice/42 \"x\""}, Token: "me:SECRETSECRETSECRETSECRETSE", Fence: 1<<53 - 1, TTL: 30 * time.Second,
}

func TestAClaimGoesThroughText(t *testing.T) {
	for _, c := range []Claim{someClaim, {}, {Names: []string{"a\xff\x00b\n"}, Token: "x", TTL: time.Millisecond}} {
		text, err := c.MarshalText()
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "redlock1."))
		require.False(t, strings.ContainsAny(string(text), " \n\"'$&;|="), "safe on a command line: %s", text)
		var got Claim
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, c, got)

		b, err := json.Marshal(map[string]Claim{"claim": c})
		require.NoError(t, err)
		var back map[string]Claim
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, c, back["claim"])
	}
}

func TestPrintingAClaimShowsNoToken(t *testing.T) {
	const want = `claim on ["a" "invoice/42 \"x\""] by me:…`
	require.Equal(t, want, someClaim.String())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, c := range []any{someClaim, &someClaim, []Claim{someClaim}, struct{ C Claim }{someClaim}} {
			require.NotContains(t, fmt.Sprintf(verb, c), "SECRET", verb)
		}
	}
	require.NotContains(t, fmt.Sprint(fmt.Errorf("resume: %v", someClaim)), "SECRET")
	for _, h := range []func(*strings.Builder) slog.Handler{
		func(b *strings.Builder) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *strings.Builder) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b strings.Builder
		slog.New(h(&b)).Info("got", "claim", someClaim)
		require.Contains(t, b.String(), "claim on")
		require.NotContains(t, b.String(), "SECRET")
	}
}

func TestADamagedClaimIsRefusedAndChangesNothing(t *testing.T) {
	text, err := someClaim.MarshalText()
	require.NoError(t, err)
	c := someClaim
	for _, bad := range []string{
		"", "redlock1", "redlock1.", "redlock2." + string(text[9:]), string(text[9:]), " " + string(text),
		string(text[:len(text)-1]), string(text) + "=", string(text) + "AA", "redlock1.!!!!", "redlock1.e30x",
		"redlock1.W10",          // []
		"redlock1.eyJ0IjoxfQ",   // {"t":1}
		"redlock1.eyJkIjoieCJ9", // {"d":"x"}
	} {
		require.ErrorIs(t, c.UnmarshalText([]byte(bad)), ErrInvalid, "%q", bad)
		require.Equal(t, someClaim, c)
	}
}

// FuzzClaim checks that a text that parses as a claim marshals to the same claim. No text,
// however damaged, panics or shows its token.
func FuzzClaim(f *testing.F) {
	for _, c := range []Claim{someClaim, {}, {Names: []string{"\xff"}, Token: "\x00", TTL: -1}} {
		text, err := c.MarshalText()
		require.NoError(f, err)
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Add([]byte("redlock1.bnVsbA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c, again Claim
		if c.UnmarshalText(text) != nil {
			require.Zero(t, c)
			return
		}
		out, err := c.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(out))
		require.Equal(t, c, again)
	})
}
