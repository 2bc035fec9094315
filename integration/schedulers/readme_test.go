package schedulers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// program is a block of Go in the README that is a whole program.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The quick starts run as a reader runs them: in three processes at once, until they are
// interrupted. Each job prints its tick and its name.
func TestTheQuickStartsRunEachTickOnceInThreeProcesses(t *testing.T) {
	readme, err := os.ReadFile("../../contrib/schedlock/README.md")
	require.NoError(t, err)
	blocks := program.FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 2)
	for i, names := range [][]string{{"report"}, {"report", "cleanup"}} {
		t.Run([]string{"gocron", "cron"}[i], func(t *testing.T) {
			t.Parallel()
			binary := build(t, blocks[i][1], redistest.URLs(redistest.Start(t, 3)))
			lines := &output{}
			var logs [3]bytes.Buffer
			var processes [3]*exec.Cmd
			for n := range processes {
				cmd := exec.CommandContext(t.Context(), binary)
				cmd.Stdout, cmd.Stderr = lines, &logs[n]
				require.NoError(t, cmd.Start())
				processes[n] = cmd
			}
			const ticks = 3
			deadline := time.Now().Add(patience)
			for lines.count() < ticks*len(names) {
				require.True(t, time.Now().Before(deadline), "too few ticks within %v: %v", patience, lines)
				time.Sleep(10 * time.Millisecond)
			}
			for _, cmd := range processes {
				require.NoError(t, cmd.Process.Signal(os.Interrupt))
			}
			var skips int
			for n, cmd := range processes {
				require.NoError(t, cmd.Wait(), "%s", &logs[n])
				require.NotContains(t, logs[n].String(), "ERROR")
				skips += strings.Count(logs[n].String(), "a tick was skipped: the lock is held")
			}
			require.GreaterOrEqual(t, skips, ticks, "the other processes log that they skip a tick")
			requireConsecutive(t, lines.all(), names)
		})
	}
}

// build builds a program of the README, with the addresses of these nodes.
func build(t *testing.T, source string, urls []string) (binary string) {
	t.Helper()
	for i, url := range urls {
		original := fmt.Sprintf("redis://127.0.0.1:700%d", i+1)
		require.Contains(t, source, original)
		source = strings.ReplaceAll(source, original, url)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	binary = filepath.Join(folder, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// requireConsecutive requires that each of the jobs ran once at each tick from its first to its last.
func requireConsecutive(t *testing.T, lines, names []string) {
	t.Helper()
	for _, name := range names {
		var before time.Time
		for _, line := range lines {
			at, job, _ := strings.Cut(line, " ")
			if job != name {
				continue
			}
			tick, err := time.Parse(time.TimeOnly, at)
			require.NoError(t, err)
			if !before.IsZero() {
				const day = 24 * time.Hour
				require.Equal(t, interval, (tick.Sub(before)+day)%day, "%v", lines)
			}
			before = tick
		}
		require.False(t, before.IsZero(), "%s never ran: %v", name, lines)
	}
}

// output collects the lines of several processes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(strings.TrimSuffix(o.text.String(), "\n"), "\n")
}

func (o *output) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Count(o.text.Bytes(), []byte("\n"))
}

func (o *output) String() string { return strings.Join(o.all(), "\n") }
