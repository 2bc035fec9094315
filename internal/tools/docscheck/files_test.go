package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALongLineOfProseIsFound(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	require.Equal(t, []string{"a.md:2: a line has more than 120 characters"}, words(checkLines([]*page{read("a.md", "short\n"+long)})))
	for _, line := range []string{
		long[1:], "[a link](https://example.com/" + long + ")", "| " + long + " |", "    " + long, "```\n" + long + "\n```", "# " + long,
	} {
		require.Empty(t, checkLines([]*page{read("a.md", line)}), line)
	}
	require.Empty(t, checkLines([]*page{read("docs/results/faults.md", long)}))
}

func TestAGoFileThatDoesNotExistIsFound(t *testing.T) {
	inFolder(t, map[string]string{
		"pool/node.go": "package pool\n", "docs/a.md": "See pool/node.go and\npool/lane.go.\n", "CHANGELOG.md": "pool/lane.go\n",
	})
	found, err := checkFiles([]string{"docs", "CHANGELOG.md"})
	require.NoError(t, err)
	require.Equal(t, []string{"docs/a.md:2: there is no file pool/lane.go"}, words(found))
}

func TestADocGoThatDoesNotNameAFileIsFound(t *testing.T) {
	inFolder(t, map[string]string{
		"pool/doc.go": "// Package pool has node.go, lane.go and others.\npackage pool\n", "pool/node.go": "package pool\n", "pool/conn.go": "package pool\n", "pool/node_test.go": "package pool\n",
	})
	found, err := checkDocGo([]string{"pool"})
	require.NoError(t, err)
	require.Equal(t, []string{"pool/doc.go:1: it does not name conn.go", "pool/doc.go:1: there is no file lane.go"}, words(found))
}
