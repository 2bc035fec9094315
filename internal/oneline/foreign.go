package oneline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxForeign bounds how much is shown of a text that a server or another client wrote, in bytes.
const maxForeign = 512

// Printable makes a text of a server or another client fit for logs and terminals. It escapes
// whatever does not print, as Go does, so no text moves a cursor or ends a line. It cuts the text
// to 512 bytes.
func Printable(text string) string {
	cut := len(text) > maxForeign
	if cut {
		text = text[:maxForeign]
	}
	if !cut && !strings.ContainsFunc(text, escaped) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] != "\uFFFD"[0]:
			if !cut || i <= maxForeign-utf8.UTFMax { // the cut may be within a rune
				fmt.Fprintf(&b, `\x%02x`, text[i])
			}
		case r < utf8.RuneSelf && escaped(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case escaped(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

func escaped(r rune) bool { return r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) }

// minSecret is the shortest text that Redact takes for a secret. Anybody can guess a shorter one,
// and its replacement would only garble words.
const minSecret = 6

// Redact replaces every occurrence of a secret in a text.
func Redact(text, secret string) string {
	if len(secret) < minSecret {
		return text
	}
	return strings.ReplaceAll(text, secret, "…")
}
