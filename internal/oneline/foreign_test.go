package oneline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestForeignTextIsMadePrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"ERR no such key":     "ERR no such key",
		"größe \u00a0x":       `größe \u00a0x`,
		"\x1b[31mred\x07\r\n": `\x1b[31mred\x07\x0d\x0a`,
		"a\xffb":              `a\xffb`,
		"\u202eright":         `\u202eright`,
		"\uFFFD":              `\ufffd`,
	} {
		require.Equal(t, want, Printable(text), "%q", text)
	}
}

func TestForeignTextIsCut(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 513), strings.Repeat("ü", 300), strings.Repeat("日", 200), strings.Repeat("x", 509) + "😀"} {
		got := Printable(text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 512+len("…"))
		require.True(t, strings.HasSuffix(got, "…"))
		require.NotContains(t, got, `\x`, "no half of a rune is shown")
	}
	require.Equal(t, strings.Repeat("x", 512), Printable(strings.Repeat("x", 512)))
	require.Contains(t, Printable(strings.Repeat("x", 508)+"\xff"+strings.Repeat("x", 10)), `x\xffxxx…`, "the cut is not in this byte")
}

func TestASecretIsReplacedWhereverItOccurs(t *testing.T) {
	require.Equal(t, "… and …", Redact("s3cret and s3cret", "s3cret"))
	for _, none := range []string{"", "as"} {
		require.Equal(t, "as it is", Redact("as it is", none))
	}
}
