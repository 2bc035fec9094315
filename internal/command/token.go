package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// randomLen is the length of a token's random part: 26 characters of base32, which is 130 bits.
const randomLen = 26

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// NewToken draws a new token: 130 random bits behind an optional owner label ("label:random"). A
// token is drawn right before it is sent and never used for a second attempt (docs/dev/hazards.md H3,
// H65). crypto/rand never fails: it ends the program rather than return weak bits.
func NewToken(owner string) string {
	var buffer [MaxLabel + 1 + randomLen]byte // so that the token is the only allocation
	token := buffer[:0]
	if owner != "" {
		token = append(append(token, owner...), ':')
	}
	var random [randomLen]byte
	_, _ = rand.Read(random[:]) // never fails
	for _, b := range random {
		token = append(token, base32[b%32])
	}
	return string(token)
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
	return len(s) == randomLen && strings.Trim(s, base32) == ""
}

// idBytes is the length of an ID before encoding: 96 bits distinguish any two locks.
const idBytes = 12

// ID returns an identifier of a token from which the token cannot be derived: 24 hexadecimal digits, the
// first 96 bits of its SHA-256. It is empty for a token of another kind of client, which knows of no ID.
func ID(token string) string {
	if !WellFormed(token) {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:idBytes])
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
