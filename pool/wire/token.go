package wire

import (
	"crypto/rand"
	"strings"
)

// randomLen is the length of a token's random part: 26 characters of base32,
// which is 130 bits (crypto/rand.Text).
const randomLen = 26

// NewToken draws a fresh token: 130 random bits behind an optional label of the
// owner ("label:random"). It is drawn right before it is sent and never used
// for a second attempt (docs/hazards.md H3, H65). crypto/rand never fails: it ends
// the program rather than give weak bits.
func NewToken(owner string) string {
	if owner == "" {
		return rand.Text()
	}
	return owner + ":" + rand.Text()
}

// Owner is the label of a token that NewToken made; empty when there is none,
// and for the token of another kind of client.
func Owner(token string) string {
	i := len(token) - randomLen - 1
	if i < 1 || token[i] != ':' || strings.Trim(token[i+1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return ""
	}
	return token[:i]
}

// Mask shows a token's label and hides the rest: who knows a token in full can
// release the lock.
func Mask(token string) string {
	if token == "" {
		return ""
	}
	if o := Owner(token); o != "" {
		return o + ":…"
	}
	return "…"
}
