package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProseThatNeedsASecondReadingIsFound(t *testing.T) {
	long := strings.Repeat("w ", maxSentence)
	for prose, want := range map[string]string{
		"Who waits is woken.":                  `"Who w": name the subject`,
		"It waits. Whom it concerns is told.":  `". Whom i"`,
		"The lock goes to whoever is next.":    `"whoever": name the subject`,
		"One of the hosts is none.":            `"is none"`,
		"The key stays for ever.":              `"for ever"`,
		"It is dialled anew.":                  `"anew"`,
		"A second attempt is of no use.":       `"of no use"`,
		long + "more.":                         "a sentence has 36 words",
		"| cell | one " + long + "|":           "a sentence has 36 words",
		"A list:\n\n- item\n- is none, really": `"is none"`,
		"over\ntwo lines it is\nnone of it":    `"is none"`,
		strings.Repeat("x", maxLine+1):         "a line has more than 120 characters",
	} {
		found := words(checkProse([]*page{read("a.md", prose)}))
		require.Len(t, found, 1, prose)
		require.Contains(t, found[0], want)
	}
	for _, prose := range []string{
		"A waiter that is next is woken. Whose lock is it?", "`is none` and `for ever` are code.",
		long + "\n\n" + long, long + ":\n" + long, "```\nit is none\n```", "    it is none",
		"[a link](https://example.com/" + strings.Repeat("x", maxLine) + ")", "| " + strings.Repeat("x", maxLine) + " |",
	} {
		require.Empty(t, words(checkProse([]*page{read("a.md", prose)})), prose)
	}
	require.Empty(t, checkProse([]*page{read("docs/dev/faults.md", "It is none.")}))
}

func TestGodocIsHeldToTheSameRules(t *testing.T) {
	inFolder(t, map[string]string{
		"p/a.go": `// Package p is none.
package p

// T is kept for ever.
type T struct {
	// F is set anew.
	F int
	// g is set anew.
	g int
}

// M is of use. This is code:
//
//	it is none
func (t *T) M() {}

// m is of use.
func (t *T) m() {}

// Whoever calls it.
func unexported() {}
`,
		"p/a_test.go": "package p\n\n// X is none.\nfunc X() {}\n",
	})
	found, err := checkGodoc([]string{"p"})
	require.NoError(t, err)
	all := strings.Join(words(found), "\n")
	for _, want := range []string{`p/a.go:1: "is none"`, `p/a.go:4: "for ever"`, `p/a.go:6: "anew"`, `p/a.go:12: "of use"`} {
		require.Contains(t, all, want)
	}
	require.Len(t, found, 4)
}

func TestGodocOfPublicPackagesCitesNoPageForContributors(t *testing.T) {
	for _, cites := range []string{"docs/dev/rules.md", "H93", "rule 22"} {
		file := "package p\n\n// T is safe (" + cites + ").\ntype T int\n\n// t is safe (" + cites + ").\ntype t int\n"
		inFolder(t, map[string]string{"p/a.go": file})
		found, err := checkGodoc([]string{"p"})
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Contains(t, words(found)[0], "p/a.go:3: ")
		require.Contains(t, words(found)[0], "a page for contributors: explain instead")
	}
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
