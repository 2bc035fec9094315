//go:build unix

package contenders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Patience bounds every wait for contenders. Tests end long before, unless something is wrong.
const Patience = 2 * time.Minute

// Group are the processes of contenders and what they have told.
type Group struct {
	processes []*exec.Cmd
	ends      []io.Closer
	reading   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	holds  []Hold
	faulty []string
}

// Start begins a process for each thing that one is told, which must go through JSON. The test's end kills what is left of them.
func Start[T any](t testing.TB, told ...T) *Group {
	t.Helper()
	c := &Group{}
	t.Cleanup(c.kill)
	for _, one := range told {
		text, err := json.Marshal(one)
		require.NoError(t, err)
		c.start(t, string(text))
	}
	return c
}

func (c *Group) start(t testing.TB, told string) {
	t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(
		os.Environ(),
		toldEnv+"="+told,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"), // the race detector sleeps for a second at the end of a process
	)
	p.Stderr = &bytes.Buffer{}
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	c.processes, c.ends = append(c.processes, p), append(c.ends, in)
	c.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.take(lines.Bytes())
		}
	})
}

func (c *Group) take(text []byte) {
	var told line
	err := json.Unmarshal(text, &told)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && told.Held != nil:
		c.holds = append(c.holds, *told.Held)
	case err == nil && told.Failed != "":
		c.faulty = append(c.faulty, told.Failed)
	default:
		c.faulty = append(c.faulty, string(text))
	}
}

// Holds are those that were told of so far.
func (c *Group) Holds() []Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.holds)
}

// Faults are what the processes said that may not happen.
func (c *Group) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faulty)
}

// Until waits until ok says so of the holds since it was called, and calls between every tenth of a second. It fails the test, with what
// was waited for, when that takes longer than [Patience].
func (c *Group) Until(t testing.TB, what string, ok func(since []Hold) bool, between func(nth int)) {
	t.Helper()
	before, deadline := len(c.Holds()), time.Now().Add(Patience)
	for nth := 0; !ok(c.Holds()[before:]); nth++ {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain", "for %v, until %s: %d holds since, and %d before; %v",
				Patience, what, len(c.Holds())-before, before, c.Faults())
		}
		if between != nil {
			between(nth)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Stop ends the processes. The test fails when one of them left a goroutine, or told of what may not happen.
func (c *Group) Stop(t testing.TB) {
	t.Helper()
	for _, in := range c.ends {
		require.NoError(t, in.Close())
	}
	timer := time.AfterFunc(Patience, c.kill)
	defer timer.Stop()
	c.reading.Wait()
	for _, p := range c.processes {
		assert.NoError(t, p.Wait(), "%v", p.Stderr)
	}
	assert.Empty(t, c.Faults())
}

func (c *Group) kill() {
	for _, p := range c.processes {
		_ = p.Process.Kill()
	}
}
