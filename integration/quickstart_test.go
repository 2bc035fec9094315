package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// program is a block of Go in a page that is a whole program.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The program of the README is the example that a newcomer copies. It runs as it is, but on servers of
// the test.
func TestTheQuickStartOfTheREADMERuns(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	shown := program.FindStringSubmatch(string(page))
	require.NotNil(t, shown)
	example, err := os.ReadFile("../examples/quickstart/main.go")
	require.NoError(t, err)
	require.Equal(t, string(example), shown[1], "examples/quickstart is the program of the README")

	source := shown[1]
	nodes := redistest.Start(t, 3)
	for i, url := range redistest.URLs(nodes) {
		original := []string{"redis://127.0.0.1:7001", "redis://127.0.0.1:7002", "redis://127.0.0.1:7003"}[i]
		require.Contains(t, source, original)
		source = strings.ReplaceAll(source, original, url)
	}
	const logs = "redlock.WithLogger(slog.Default())"
	require.Contains(t, source, logs)
	source = strings.Replace(source, logs, logs+", redlock.WithNodeTimeout(20*time.Second)", 1) // the machine may be busy
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "program"), file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), filepath.Join(folder, "program")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "the lock is held")
	redistest.NoKeys(t, nodes, 2*time.Second)
}
