package goredisnodes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// program is a block of Go in the README that is a whole program.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The quick start runs as a reader runs it, while another program holds the lock, and then in three
// processes at once.
func TestTheQuickStartWaitsForTheLockAndDoesItsWork(t *testing.T) {
	readme, err := os.ReadFile("../../contrib/goredisnodes/README.md")
	require.NoError(t, err)
	blocks := program.FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 1)
	nodes := redistest.Start(t, 3)
	binary := build(t, blocks[0][1], nodes)

	for _, n := range nodes {
		n.Do(t, "SET", name, "held by a program on go-redis", "PX", time.Hour.Milliseconds())
		n.Do(t, "CONFIG", "RESETSTAT")
	}
	waiting := start(t, binary)
	await(t, "a quorum has refused the lock", func() bool {
		refused := 0
		for _, n := range nodes {
			if strings.Contains(fmt.Sprintf("%s", n.Do(t, "INFO", "commandstats")), "cmdstat_set:") {
				refused++
			}
		}
		return refused >= 2
	})
	require.Empty(t, nodes[0].Keys(t, "settled"), "the work has begun though the lock is held")
	for _, n := range nodes {
		n.Do(t, "DEL", name)
	}
	require.Equal(t, "settled 1\n", waiting.wait(t))

	three := []*process{start(t, binary), start(t, binary), start(t, binary)}
	var settled []string
	for _, p := range three {
		settled = append(settled, p.wait(t))
	}
	slices.Sort(settled)
	require.Equal(t, []string{"settled 2\n", "settled 3\n", "settled 4\n"}, settled)
	for _, n := range nodes {
		require.Empty(t, n.Keys(t, name), "Close has waited for the releases")
	}
}

// process is a program that runs.
type process struct {
	*exec.Cmd
	out, logs bytes.Buffer
}

func start(t *testing.T, binary string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), binary)}
	p.Stdout, p.Stderr = &p.out, &p.logs
	require.NoError(t, p.Start())
	return p
}

// wait returns what the program has printed. It must have succeeded.
func (p *process) wait(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.Wait(), "%s", &p.logs)
	return p.out.String()
}

// build builds a program of the README, with the addresses of these nodes, which may be busy.
func build(t *testing.T, source string, nodes []*redistest.Node) (binary string) {
	t.Helper()
	replace := func(original, with string) {
		require.Contains(t, source, original)
		source = strings.ReplaceAll(source, original, with)
	}
	replace("redlock.New(nodes)", fmt.Sprintf("redlock.New(nodes, redlock.WithNodeTimeout(%d))", nodeTimeout))
	replace("10*time.Second) // bounds the wait", "time.Minute) // bounds the wait")
	for i, n := range nodes {
		replace(fmt.Sprintf("127.0.0.1:700%d", i+1), n.Addr())
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	binary = filepath.Join(folder, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
