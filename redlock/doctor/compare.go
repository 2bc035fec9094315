package doctor

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/examine"
)

func newFinding(f examine.Finding) Finding {
	return Finding{Grade: Grade(f.Grade), Code: f.Code, Text: f.Text}
}

// Codes of findings about all nodes together, besides "clock", "duplicate" and "persistence", which
// nodes also use.
const codeEven = "even"

// maxSpread is the largest difference between clocks that counts as synchronized.
const maxSpread = time.Second

// compare adds the findings that need the reports of all nodes.
func (r *Report) compare() {
	r.checkDuplicates()
	if n := len(r.Nodes); n%2 == 0 {
		r.add(Warning, codeEven, "%d nodes tolerate no more failures than %d: add or remove one", n, n-1)
	}
	if r.measureSpread(); r.ClockSpread > maxSpread {
		r.add(Warning, examine.CodeClock, "the nodes' clocks differ by %v: run NTP on all of them, because setting a clock ends held "+
			"locks early or late", r.ClockSpread.Round(time.Millisecond))
	}
	r.checkMixture()
}

func (r *Report) add(grade Grade, code, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Grade: grade, Code: code, Text: fmt.Sprintf(format, args...)})
}

// checkDuplicates finds servers that are listed twice (docs/dev/hazards.md H34).
func (r *Report) checkDuplicates() {
	r.duplicates(func(first, second *Node) {
		r.Findings = append(r.Findings, newFinding(examine.Finding{Grade: examine.Error, Fault: command.Duplicate(first.Node, second.Node, first.RunID)}))
	})
}

// duplicates calls f for each node that is the same server as an earlier one.
func (r *Report) duplicates(f func(first, second *Node)) {
	firsts := make(map[string]*Node)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		switch first := firsts[n.RunID]; {
		case n.RunID == "":
		case first != nil:
			f(first, n)
		default:
			firsts[n.RunID] = n
		}
	}
}

func (r *Report) measureSpread() {
	var least, most time.Duration
	timed := false
	for _, n := range r.Nodes {
		if !n.ClockRead {
			continue
		}
		if !timed {
			least, most, timed = n.ClockOffset, n.ClockOffset, true
		}
		least, most = min(least, n.ClockOffset), max(most, n.ClockOffset)
	}
	r.ClockSpread = most - least
}

// checkMixture warns if nodes persist differently: the weakest decides what a lock survives.
func (r *Report) checkMixture() {
	var seen []Node
	for _, n := range r.Nodes {
		if !n.Answered || n.Persistence == examine.Unknown {
			continue
		}
		if seen = append(seen, n); n.Persistence != seen[0].Persistence {
			r.add(Warning, examine.CodePersistence, "the nodes persist their data differently (%s: %s; %s: %s): the weakest decides what a lock "+
				"survives; configure all nodes alike", seen[0].Node, seen[0].Persistence, n.Node, n.Persistence)
			return
		}
	}
}
