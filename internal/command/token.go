package command

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// randomLen is the length of a token's random part: 26 characters of base32, which is 130 bits
// (crypto/rand.Text).
const randomLen = 26

// NewToken draws a new token: 130 random bits behind an optional owner label ("label:random"). A
// token is drawn right before it is sent and never used for a second attempt (docs/dev/hazards.md H3,
// H65). crypto/rand never fails: it ends the program rather than return weak bits.
func NewToken(owner string) string {
	if owner == "" {
		return rand.Text()
	}
	return owner + ":" + rand.Text()
}

// Owner returns the label of a token for display. It is empty for a token without a label and for
// the token of another kind of client. Any client that may write to a node chooses the label, so
// it is made printable.
func Owner(token string) string { return oneline.Printable(Label(token)) }

// Label returns the label of a token unchanged: see Owner.
func Label(token string) string {
	i := len(token) - randomLen - 1
	if i < 1 || token[i] != ':' || !isRandom(token[i+1:]) {
		return ""
	}
	return token[:i]
}

// WellFormed reports whether a token has the form of NewToken. A holder with another token is a
// client of another library, which announces no release.
func WellFormed(token string) bool {
	return Label(token) != "" || isRandom(token)
}

func isRandom(s string) bool {
	return len(s) == randomLen && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// LongValue represents a value of that many bytes, which is too long for a token and is not
// downloaded.
func LongValue(bytes int64) string { return fmt.Sprintf("(%d bytes)", bytes) }

// Mask shows a token's label and hides the rest, because the full token can release the lock.
func Mask(token string) string {
	if token == "" {
		return ""
	}
	if o := Owner(token); o != "" {
		return o + ":…"
	}
	return "…"
}
