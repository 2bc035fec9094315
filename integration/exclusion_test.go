//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// Sixteen contenders: two processes with two Lockers each, so that some meet in a Locker's queue, some in one process, and some on the
// nodes only.
const (
	contenderProcesses = 2
	contenderLockers   = 2
	contendersEach     = 4
	contenders         = contenderProcesses * contenderLockers * contendersEach
)

// fault is something that is done to servers while locks on them are contended for.
type fault struct {
	name  string
	begin func(t *testing.T, nodes []*redistest.Node)
	again func(t *testing.T, nodes []*redistest.Node, nth int) // over and over while it lasts
	end   func(t *testing.T, nodes []*redistest.Node)
	after func(t *testing.T, nodes []*redistest.Node) // when nobody contends any more
	names []string                                    // that are contended for; one if none are given
}

// None of the faults makes a node forget what it acknowledged while it is of use to anybody: that may break exclusion by design, and
// is what the restart guard is for.
var faults = []fault{
	{name: "nothing"},
	{name: "nothing, with sets of names that overlap", names: []string{"a", "b", "c", "d"}},
	{
		name:  "a node is paused",
		begin: func(t *testing.T, nodes []*redistest.Node) { nodes[0].Pause(t) },
		end:   func(t *testing.T, nodes []*redistest.Node) { nodes[0].Unpause(t) },
	},
	{
		name:  "a node is killed",
		begin: func(t *testing.T, nodes []*redistest.Node) { nodes[1].Kill(t) },
		after: func(t *testing.T, nodes []*redistest.Node) { nodes[1].Restart(t) },
	},
	{
		name: "scripts are flushed",
		again: func(t *testing.T, nodes []*redistest.Node, _ int) {
			for _, n := range nodes {
				n.Do(t, "SCRIPT", "FLUSH")
			}
		},
	},
	{
		name: "connections are killed",
		again: func(t *testing.T, nodes []*redistest.Node, nth int) {
			nodes[nth%len(nodes)].Do(t, "CLIENT", "KILL", "TYPE", "normal")
		},
	},
	{
		name: "clients have to wait",
		again: func(t *testing.T, nodes []*redistest.Node, nth int) {
			nodes[nth%len(nodes)].Do(t, "CLIENT", "PAUSE", 90, "ALL")
			if nth%4 == 0 { // at a majority of the nodes
				nodes[(nth+1)%len(nodes)].Do(t, "CLIENT", "PAUSE", 60, "ALL")
			}
		},
	},
}

// rebirth needs nodes that lose nothing.
var rebirth = fault{
	name:  "a node is killed and comes back with what it had",
	begin: func(t *testing.T, nodes []*redistest.Node) { nodes[2].Kill(t) },
	end:   func(t *testing.T, nodes []*redistest.Node) { nodes[2].Restart(t) },
}

func TestNoTwoHoldersAtOnceAndEverybodyGetsTheLock(t *testing.T) {
	nodes := masters(t, 3)
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if len(f.names) == 0 {
				f.names = []string{"exclusion/" + strconv.Itoa(i)}
			}
			f.run(t, nodes)
		})
	}
	t.Run(rebirth.name, func(t *testing.T) {
		rebirth.names = []string{"exclusion"}
		rebirth.run(t, masters(t, 3, "--appendonly", "yes", "--appendfsync", "always"))
	})
}

// run contends before the fault, under it and after it, each time until every contender has held the lock.
func (f fault) run(t *testing.T, nodes []*redistest.Node) {
	t.Helper()
	crowd := startContenders(t, contention{
		URLs: redistest.URLs(nodes), Names: f.names, TTL: 300 * time.Millisecond,
		Lockers: contenderLockers, Contenders: contendersEach,
	})
	crowd.progress(t, 1, 0, func(int) {})
	if f.begin != nil {
		f.begin(t, nodes)
	}
	crowd.progress(t, 2, 1500*time.Millisecond, func(nth int) {
		if f.again != nil {
			f.again(t, nodes, nth)
		}
	})
	if f.end != nil {
		f.end(t, nodes)
	}
	if f.after == nil {
		crowd.progress(t, 1, 0, func(int) {})
	}
	crowd.stop(t)
	if f.after != nil {
		f.after(t, nodes)
	}
	holds := crowd.holds()
	assert.Empty(t, overlaps(holds), "two held the lock at once")
	redistest.NoKeys(t, nodes, 2*time.Second)
	t.Logf("%d holds", len(holds))
}

// crowd are the processes of contenders and what they have told.
type crowd struct {
	processes []*exec.Cmd
	ends      []io.Closer
	reading   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	told   []hold
	counts tally
	faulty []string
}

func startContenders(t *testing.T, c contention) *crowd {
	t.Helper()
	all := &crowd{counts: make(tally)}
	t.Cleanup(all.kill)
	for i := range contenderProcesses {
		c.Process = i
		all.start(t, c)
	}
	return all
}

func (all *crowd) start(t *testing.T, c contention) {
	t.Helper()
	told, err := json.Marshal(c)
	require.NoError(t, err)
	p := exec.Command(os.Args[0])
	p.Env = append(
		os.Environ(),
		contentionEnv+"="+string(told),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"), // the race detector sleeps for a second at the end of a process
	)
	p.Stderr = &bytes.Buffer{}
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	all.processes, all.ends = append(all.processes, p), append(all.ends, in)
	all.reading.Go(func() { all.read(out) })
}

func (all *crowd) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.take(lines.Text())
	}
}

func (all *crowd) take(line string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	word := strings.Fields(line)
	if len(word) != 5 || word[0] != "held" {
		all.faulty = append(all.faulty, line)
		return
	}
	from, err1 := strconv.ParseInt(word[3], 10, 64)
	to, err2 := strconv.ParseInt(word[4], 10, 64)
	if err1 != nil || err2 != nil {
		all.faulty = append(all.faulty, line)
		return
	}
	all.counts[word[1]]++
	all.told = append(all.told, hold{word[1], strings.Split(word[2], ","), time.Duration(from), time.Duration(to)})
}

// progress waits until every contender has had the lock that many times more, and for as long at least. It calls between every tenth
// of a second.
func (all *crowd) progress(t *testing.T, times int, atLeast time.Duration, between func(nth int)) {
	t.Helper()
	before := all.tally()
	deadline, enough := time.Now().Add(2*patience), time.Now().Add(atLeast)
	for nth := 0; !all.tally().exceeds(before, times) || time.Now().Before(enough); nth++ {
		if time.Now().After(deadline) {
			all.mu.Lock()
			defer all.mu.Unlock()
			require.FailNow(t, "somebody never gets the lock", "in %v, %d times more than %v: %v; %v",
				2*patience, times, before, all.counts, all.faulty)
		}
		between(nth)
		time.Sleep(100 * time.Millisecond)
	}
}

// tally is how many holds each contender had.
type tally map[string]int

func (all *crowd) tally() tally {
	all.mu.Lock()
	defer all.mu.Unlock()
	return maps.Clone(all.counts)
}

func (now tally) exceeds(before tally, by int) bool {
	if len(now) < contenders {
		return false
	}
	for c, n := range now {
		if n < before[c]+by {
			return false
		}
	}
	return true
}

// stop ends the processes, which fail when they left a goroutine.
func (all *crowd) stop(t *testing.T) {
	t.Helper()
	for _, in := range all.ends {
		require.NoError(t, in.Close())
	}
	timer := time.AfterFunc(2*patience, all.kill)
	defer timer.Stop()
	all.reading.Wait()
	for _, p := range all.processes {
		assert.NoError(t, p.Wait(), "%v", p.Stderr)
	}
	all.processes = nil
	assert.Empty(t, all.faulty)
}

func (all *crowd) kill() {
	for _, p := range all.processes {
		_ = p.Process.Kill()
	}
}

func (all *crowd) holds() []hold {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.told
}
