package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each value is that of the variable, and the text of a file.
func TestWhatStandsAroundAURLIsReportedWithoutThePassword(t *testing.T) {
	const url = "redis://app:hunter2@a:6379"
	for text, want := range map[string]string{
		`"` + url + `"`:                        "node 1 is in quotes: remove them",
		`'` + url + `'`:                        "node 1 is in quotes: remove them",
		"“" + url + "”":                        "node 1 is in quotes: remove them",
		`"` + url + `,redis://b"`:              "the list of nodes is in quotes: remove them",
		`'` + url + `, redis://b,redis://c'`:   "the list of nodes is in quotes: remove them",
		`"` + url + `","redis://b"`:            "node 1 is in quotes: remove them",
		`redis://b, "` + url + `"`:             "node 2 is in quotes: remove them",
		`"` + url:                              "node 1 begins with a quote: remove it",
		url + `"`:                              "node 1 ends with a quote: remove it",
		"\ufeff" + url:                         "node 1 begins with a byte order mark: save the file without it",
		"redis://b,\ufeff" + url:               "node 2 begins with a byte order mark: save the file without it",
		"\u200b" + url:                         "node 1 contains an invisible character: remove it",
		url + "\u200b":                         "node 1 contains an invisible character: remove it",
		"\xff\xfer\x00e\x00d\x00":              "node 1 is not UTF-8: save the file as UTF-8",
		"# " + url:                             "node 1 is a comment (#): remove it",
		"#" + url:                              "node 1 is a comment (#): remove it",
		"# the nodes, in Berlin\nredis://b":    "node 1 is a comment (#): remove it",
		url + " # in Berlin, beside " + url:    "node 1 is followed by a comment (#): remove it",
		"redis://b\n" + url + "\t#in Berlin":   "node 2 is followed by a comment (#): remove it",
		"REDLOCK_NODES=" + url + ",redis://b":  "node 1 does not begin with its scheme: remove what stands before it",
		"- " + url + "\n- redis://b":           "node 1 does not begin with its scheme: remove what stands before it",
		`["` + url + `"]`:                      "node 1 does not begin with its scheme: remove what stands before it",
		`"redis+sentinel://app:hunter2@a,b/m"`: "node 1 is in quotes: remove them",
	} {
		file := filepath.Join(t.TempDir(), "nodes")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadNodesFile("--nodes-file", file)
		require.EqualError(t, err, "--nodes-file: "+want, text)
		_, err = ReadNodes(getenv(map[string]string{Nodes: strings.ReplaceAll(text, "\n", ",")}))
		require.EqualError(t, err, "REDLOCK_NODES: "+want, text)
	}
}

// What is valid stays valid, and what is wrong in a URL is reported by pool.ParseURL.
func TestWhatStandsInAURLIsNotTakenForWhatStandsAroundIt(t *testing.T) {
	for _, list := range []string{
		"redis://app:pa#ss@a", "redis://app:pass@a/x", "http://a", "a:6379", "redis://a?name='b'", "unix:///tmp/it's",
		"redis://a:6379 ,redis://b", "redis://app:%22x%22@a", "redis+sentinel://a,b/m",
	} {
		if _, err := SplitNodes("--nodes", list); err != nil {
			require.ErrorContains(t, err, "--nodes: URL 1 of 1: pool: ", list)
		}
	}
}
