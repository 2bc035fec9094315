package schedulers

import (
	"bytes"
	"errors"
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
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/redlock"
)

// program is a block of Go in the README that is a whole program.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The quick starts run as a reader runs them: in three processes at once, until they are
// interrupted. Each job prints its tick and its name.
func TestTheQuickStartsRunEachTickOnceInThreeProcesses(t *testing.T) {
	late.LeaveOut(t, "three processes try at the same instant, and only the late node decides their split votes, within the node timeout or not")
	readme, err := os.ReadFile("../../contrib/schedlock/README.md")
	require.NoError(t, err)
	blocks := program.FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 2)
	for i, names := range [][]string{{"report"}, {"report", "cleanup"}} {
		t.Run([]string{"gocron", "cron"}[i], func(t *testing.T) {
			t.Parallel()
			binary := build(t, blocks[i][1], redistest.URLs(redistest.Start(t, 3)))
			wrong, stopped := runThree(t, binary, names)
			for try := 1; wrong != nil && stopped && try < 5; try++ {
				wrong, stopped = runThree(t, binary, names)
			}
			require.NoError(t, wrong)
		})
	}
}

// runThree runs a program in three processes for some ticks. It returns what went wrong, and whether
// the machine stopped for a while: then the minimum hold may have been too short, or there was no quorum in time.
func runThree(t *testing.T, binary string, names []string) (wrong error, stopped bool) { //nolint:revive // the error is a value here
	t.Helper()
	const ticks = 3
	lines, logs := &output{}, &output{}
	stops := watchStops()
	var processes [3]*exec.Cmd
	for n := range processes {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Stdout, cmd.Stderr = lines, logs
		require.NoError(t, cmd.Start())
		processes[n] = cmd
	}
	failed := func() bool { return strings.Contains(logs.String(), "ERROR") }
	skips := func() int { return strings.Count(logs.String(), "a tick was skipped: the lock is held") }
	deadline := time.Now().Add(patience)
	for !failed() && (lines.count() < ticks*len(names) || skips() < ticks) { // a process may start some ticks after the others
		require.True(t, time.Now().Before(deadline), "too few ticks, or skipped ones, within %v: %v\n%v", patience, lines, logs)
		time.Sleep(10 * time.Millisecond)
	}
	for _, cmd := range processes {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
	}
	for _, cmd := range processes {
		wrong = errors.Join(wrong, cmd.Wait())
	}
	if wrong != nil || failed() {
		wrong = fmt.Errorf("%w\n%s", errors.Join(errors.New("a process failed"), wrong), logs)
	} else {
		wrong = areConsecutive(lines.all(), names)
	}
	unanswered := strings.Contains(logs.String(), redlock.ErrNodeTimeout.Error())
	return wrong, stops() || lines.wasLate() || unanswered
}

// watchStops measures the machine until the returned function is called. That function returns whether
// what sleeps for 100 ms was gone for more than 500 ms.
func watchStops() (end func() bool) {
	over, stopped := make(chan struct{}), make(chan bool)
	go func() {
		gone := false
		for last := time.Now(); ; {
			select {
			case <-over:
				stopped <- gone
				return
			case <-time.After(100 * time.Millisecond):
			}
			now := time.Now()
			gone = gone || now.Sub(last) > 500*time.Millisecond
			last = now
		}
	}()
	return func() bool {
		close(over)
		return <-stopped
	}
}

// build builds a program of the README, with the addresses of these nodes, which may be busy.
func build(t *testing.T, source string, urls []string) (binary string) {
	t.Helper()
	replace := func(original, with string) {
		require.Contains(t, source, original)
		source = strings.ReplaceAll(source, original, with)
	}
	replace(`:7003"})`, fmt.Sprintf(`:7003"}, redlock.WithNodeTimeout(%d))`, nodeTimeout))
	for i, url := range urls {
		replace(fmt.Sprintf("redis://127.0.0.1:700%d", i+1), url)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	binary = filepath.Join(folder, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// areConsecutive returns an error unless each of the jobs ran once at each tick from its first to its last.
func areConsecutive(lines, names []string) error {
	for _, name := range names {
		var before time.Time
		for _, line := range lines {
			at, job, _ := strings.Cut(line, " ")
			if job != name {
				continue
			}
			tick, err := time.Parse(time.TimeOnly, at)
			if err != nil {
				return err
			}
			const day = 24 * time.Hour
			if !before.IsZero() && (tick.Sub(before)+day)%day != interval {
				return fmt.Errorf("%s did not run once at each tick: %v", name, lines)
			}
			before = tick
		}
		if before.IsZero() {
			return fmt.Errorf("%s never ran: %v", name, lines)
		}
	}
	return nil
}

// output collects the lines of several processes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	late bool // something was written when its tick was long over: a process or a server had stopped
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.late = o.late || now.Sub(now.Truncate(interval)) > punctual
	return o.text.Write(b)
}

func (o *output) wasLate() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.late
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
