package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/guard"
)

func TestAMarkerIsReadAsItWasWritten(t *testing.T) {
	g := guard.New(time.Minute, []string{"a", "b|c", "d"})
	g.MaxAge = map[string]time.Duration{"b|c": 5 * time.Second}
	require.Equal(t, "2|ab12|00|60000|5000|a818ab4d7dadecc9|b%7Cc|ok", g.Marker("ab12", "00", "b|c"))
	m, err := guard.ParseMarker(g.Marker("ab12", "00", "b|c"))
	require.NoError(t, err)
	require.Equal(t, guard.Marker{
		RunID: "ab12", ReplID2: "00", MaxTTL: time.Minute, MaxAge: 5 * time.Second, Fingerprint: g.Fingerprint, Node: "b|c",
	}, m)
	require.Empty(t, g.Mismatches(m, "b|c"))

	m, err = guard.ParseMarker("2|ab12|00|9223372036854|0|ff|d|ok")
	require.NoError(t, err)
	require.Equal(t, 9223372036854*time.Millisecond, m.MaxTTL, "the longest time")

	m, err = guard.ParseMarker("2|ab12|00|60000|5000|ff|d|q1700000000000")
	require.NoError(t, err)
	require.Equal(t, int64(1700000000000), m.Until)
	require.Equal(t, []string{
		"maxTTL is 1m0s there and 1s here", "the max_age of its Sentinels is 5s there and 0s here", `the node is called "d" there and "a" here`,
		"the list of the nodes' names is another one",
	}, guard.New(time.Second, []string{"a"}).Mismatches(m, "a"))
}

func TestAnInvalidMarkerIsReportedAsSuch(t *testing.T) {
	for text, says := range map[string]string{
		"":                            "its version is not 2",
		"1|r|p|1|0|f|n|ok":            "its version is not 2",
		"2|r|p|1|0|f|n":               "7 parts",
		"2|r|p|1|0|f|n|ok|":           "9 parts",
		"2|r|p|x|0|f|n|ok":            `invalid time in milliseconds "x"`,
		"2|r|p|1|-1|f|n|ok":           `invalid time in milliseconds "-1"`,
		"2|r|p|9223372036855|0|f|n|q": "invalid time",
		"2|r|p|1|0|f|%zz|ok":          "invalid URL escape",
		"2|r|p|1|0|f|n|well":          `invalid state "well"`,
		"2|r|p|1|0|f|n|q":             "invalid state",
		"2|r|p|1|0|f|n|q0":            "invalid state",
		"2||p|1|0|f|n|ok":             "an empty part",
	} {
		_, err := guard.ParseMarker(text)
		require.ErrorContains(t, err, says, text)
	}
}
