package wire

import (
	"crypto/rand"
	"fmt"
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

// Owner is the label of a token, to be shown; empty when there is none, and for the token of another
// kind of client. The label is made printable, because any client that may write to a node chooses it.
func Owner(token string) string { return Printable(Label(token)) }

// Label is the label of a token as it stands there: see Owner.
func Label(token string) string {
	i := len(token) - randomLen - 1
	if i < 1 || token[i] != ':' || !isRandom(token[i+1:]) {
		return ""
	}
	return token[:i]
}

// WellFormed reports whether a token has the form of those that NewToken makes. A holder with
// another token is a client of another library, which announces no release.
func WellFormed(token string) bool {
	return Label(token) != "" || isRandom(token)
}

func isRandom(s string) bool {
	return len(s) == randomLen && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// LongValue stands for a value of so many bytes, which is too long for a token and is not
// downloaded.
func LongValue(bytes int64) string { return fmt.Sprintf("(%d bytes)", bytes) }

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
