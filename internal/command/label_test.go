package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTheLabelOfAProcessIsALabelWhateverItsHostIsCalled(t *testing.T) {
	for host, want := range map[string]string{
		"":                            "unknown/1",
		"web-7.example":               "web-7.example/1",
		"two words:\n":                "two-words--/1",
		"日本":                          "日本/1",
		strings.Repeat("h", 100):      strings.Repeat("h", 62) + "/1",
		"a" + strings.Repeat("é", 50): "a" + strings.Repeat("é", 30) + "/1",
		"\xff\x00":                    "--/1",
	} {
		label := processLabel(host, 1)
		require.Equal(t, want, label)
		require.True(t, ValidLabel(label), "%q", label)
		require.True(t, utf8.ValidString(label), "%q", label)
		require.Equal(t, label, Owner(NewToken(label)))
	}
	require.Len(t, processLabel(strings.Repeat("h", 100), 1234567), MaxLabel)
	require.True(t, ValidLabel(ProcessLabel(1)))
}

// Only tokens of this library have an ID: another kind of client knows of none.
func TestATokensIDIsThatOfItsLock(t *testing.T) {
	token := NewToken("me")
	require.Regexp(t, `^[0-9a-f]{24}$`, ID(token))
	require.Equal(t, ID(token), ID(token))
	require.NotEqual(t, ID(token), ID(NewToken("me")))
	require.Empty(t, ID("another library's"))
	require.Empty(t, ID(""))
}
