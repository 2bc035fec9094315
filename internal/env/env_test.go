package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/quorumlock/go-redlock/pool/sentinel" // its URLs
)

func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestTheNodesAreReadFromAListOrAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte("redis://a:1\r\n\n redis+sentinel://b:1,c:1/m , redis://d:1\n"), 0o600))
	want := []string{"redis://a:1", "redis+sentinel://b:1,c:1/m", "redis://d:1"}
	urls, err := ReadNodes(getenv(map[string]string{NodesFile: file}))
	require.NoError(t, err)
	require.Equal(t, want, urls)
	urls, err = ReadNodes(getenv(map[string]string{Nodes: strings.Join(want, ",")}))
	require.NoError(t, err)
	require.Equal(t, want, urls)
	urls, err = ReadNodes(getenv(map[string]string{Nodes: " ", NodesFile: file}))
	require.NoError(t, err)
	require.Equal(t, want, urls)
	_, err = ReadNodes(getenv(nil))
	require.Equal(t, ErrNoNodes, err)
}

func TestAFileOfNodesIsBoundedAndNotQuoted(t *testing.T) {
	folder := t.TempDir()
	write := func(text string) string {
		file := filepath.Join(folder, "nodes")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for want, file := range map[string]func() string{
		"has more than 1048576 bytes": func() string { return write(strings.Repeat("secret", 1<<18)) },
		"is empty":                    func() string { return write(" \n\n") },
		"contains an empty URL":       func() string { return write("redis://:secret@a:1,,") },
		"the file can't be read":      func() string { return "secret@host" },
		"not a URL":                   func() string { return "redis://:secret@a" },
	} {
		_, err := ReadNodesFile("--nodes-file", file())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// The errors say where the list is, and of each URL what is wrong with it.
func TestAMistakeInAListNamesItsSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte("redis://a\nhttp://:secret@b\nc:6379\n"), 0o600))
	for from, vars := range map[string]map[string]string{
		Nodes:     {Nodes: "redis://a,http://:secret@b,c:6379"},
		NodesFile: {NodesFile: file},
	} {
		_, err := ReadNodes(getenv(vars))
		require.ErrorContains(t, err, from+": URL 2 of 3: pool: ")
		require.ErrorContains(t, err, "; URL 3 of 3: pool: ")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestTheGuardIsADurationWithAUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "30s": 30 * time.Second, "0": 0} {
		d, err := ReadGuard(getenv(map[string]string{Guard: text}))
		require.NoError(t, err)
		require.Equal(t, want, d)
	}
	_, err := ReadGuard(getenv(map[string]string{Guard: "30"}))
	require.EqualError(t, err, `REDLOCK_GUARD: a duration needs a unit: 30ms, 30s, 30m or 30h`)
	_, err = ReadGuard(getenv(map[string]string{Guard: "soon"}))
	require.EqualError(t, err, `REDLOCK_GUARD: a duration is needed, with the units ms, s, m and h, like 500ms, 30s or 1h30m`)
}
