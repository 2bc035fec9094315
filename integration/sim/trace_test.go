package sim

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/redlock"
)

// traces is the folder in which each scenario leaves its trace; empty: none does.
var traces = os.Getenv("SIM_TRACE")

// trace is what masters and clients did in a scenario, in the form of proof/check/README.md. Masters report what they have
// executed, and the library reports rounds, answers and decisions. So a master's part does not depend on what a client
// believes. A nil trace records nothing.
type trace struct {
	began   time.Time
	longest time.Duration
	nodes   int
	header  []string
	rename  func(token string) string // what masters see in place of a client's token

	mu         sync.Mutex // guards the fields below; nothing but a client's clock is called under it
	lines      []*traceLine
	executions []*execution
	rounds     []*tracedRound
	rounded    map[*vote.Round]*tracedRound
	claims     map[string]int // by token, the client that has detached it
	passed     bool           // a claim went from one client to another
}

// traceLine is a line. One without a text is left out.
type traceLine struct {
	at   time.Duration
	text string
	of   *execution // replaces the text
}

func (w *world) beginTrace() {
	p := w.plan
	if traces == "" {
		return
	}
	t := &trace{
		began: time.Now(), longest: redlock.DefaultMaxTTL, nodes: p.masters, rename: func(s string) string { return s },
		rounded: map[*vote.Round]*tracedRound{}, claims: map[string]int{},
	}
	if p.faultyClient != nil && p.faultyClient.rename != nil {
		t.rename = p.faultyClient.rename
	}
	t.header = []string{fmt.Sprint("# ", p), fmt.Sprint("nodes ", p.masters)}
	if p.guard {
		t.longest = p.longest()
		t.header = append(t.header, "guard")
	}
	// docs/dev/rules.md rule 2, in numbers: the trace must not follow the code that computes the margin.
	t.header = append(t.header, fmt.Sprint("longest ", t.longest.Milliseconds()), "late 5000000 20")
	w.trace = t
}

// promises returns what the proof has to show of a scenario: what the oracles check. A node that executes an acquire
// late may keep its key until the TTL if another client has resumed and released the lock, as Detach says, and also
// if nodes forget.
func (p *plan) promises(passed bool) (list []string) {
	if p.excludes {
		list = append(list, "exclusion")
	}
	switch {
	case p.fencing && p.excludes:
		list = append(list, "fences-in-order")
	case p.fencing:
		list = append(list, "fences-differ")
	}
	if !p.guard && !passed {
		list = append(list, "nothing-left")
	}
	return list
}

// kind names the part of the scenarios that a plan belongs to.
func (p *plan) kind() string {
	switch {
	case !p.excludes:
		return "beyond"
	case p.repair:
		return "repair"
	case p.guard:
		return "guard"
	}
	return "kept"
}

// billionths returns a rate as traces have it.
func billionths(rate float64) int64 { return int64(math.Round(rate * 1e9)) }

// wholeRate returns the rate that is nearest and a whole number of billionths.
func wholeRate(rate float64) float64 { return float64(billionths(rate)) / 1e9 }

// observe has a client in the trace from now on.
func (t *trace) observe(c *client) {
	if t == nil {
		return
	}
	t.header = append(t.header, fmt.Sprintf("client %d 0 %d", c.id, billionths(c.rate)))
	door.Observe(c.locker, &tracedClient{t, c})
}

// observeMaster has a master in the trace from now on. Its clock is ahead, and runs at this rate.
func (t *trace) observeMaster(i int, m *fakeredis.Master, ahead time.Duration, rate float64) {
	if t == nil {
		return
	}
	t.header = append(t.header, fmt.Sprintf("node %d %d %d", i, t.began.Add(ahead).UnixNano(), billionths(rate)))
	m.Observe(&tracedMaster{t, i})
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(&traceLine{text: fmt.Sprintf(format, args...)})
}

func (t *trace) addLocked(l *traceLine) {
	l.at = time.Since(t.began)
	t.lines = append(t.lines, l)
}

// addEarlierLocked adds a line of the nanosecond before this instant.
func (t *trace) addEarlierLocked(text string) {
	l := &traceLine{at: max(0, time.Since(t.began)-1), text: text}
	i := len(t.lines)
	for i > 0 && t.lines[i-1].at > l.at {
		i--
	}
	t.lines = slices.Insert(t.lines, i, l)
}

// use records that a client sees its lock valid. The lock may end right after the question, so the line stands where
// the trace was before it.
func (t *trace) use(client int, k *redlock.Lock) {
	if t == nil {
		return
	}
	l := &traceLine{}
	t.mu.Lock()
	t.addLocked(l)
	t.mu.Unlock()
	if k.Remaining() > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		l.text = fmt.Sprintf("use %d %s", client, t.rename(k.Token()))
	}
}

// setClock has set change a client's clock, and records it: the clock advances by d at once, and runs at a rate from then
// on. No line comes between.
func (t *trace) setClock(c *client, d time.Duration, rate float64, set func()) {
	if t == nil {
		set()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set()
	t.addLocked(&traceLine{text: fmt.Sprintf("clock client %d %d %d", c.id, d, billionths(rate))})
}

// write writes the trace of a plan into the folder. There is one of each kind and seed.
func (t *trace) write(kind string, p *plan) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.executions {
		t.guessRoundLocked(e)
	}
	var b strings.Builder
	if p.rejected != "" {
		b.WriteString("# expected: " + p.rejected + "\n")
	}
	for _, h := range append(t.header, "promise "+strings.Join(p.promises(t.passed), " ")) {
		b.WriteString(h + "\n")
	}
	for _, l := range t.lines {
		if l.of != nil {
			l.text = l.of.line()
		}
		if l.text != "" {
			fmt.Fprintf(&b, "%d %s\n", l.at, l.text)
		}
	}
	if err := os.WriteFile(filepath.Join(traces, fmt.Sprintf("%s-%06d.trace", kind, p.seed)), []byte(b.String()), 0o600); err != nil {
		panic(err)
	}
}
