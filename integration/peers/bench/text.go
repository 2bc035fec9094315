//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/load"
)

// A column shows one figure of a row.
type column struct {
	head string
	cell func(t table, r row) string
}

// columns returns the columns that are useful for a shape.
func columns(shape load.Shape) []column {
	switch shape {
	case load.Uncontended, load.Opening:
		return []column{rate, ratio, acquired, both, clientCPU, serverCPU, calls, allocs, bytes, commands, failed}
	case load.Contention:
		return []column{rate, ratio, handoffGap, acquired, both, jain, clientCPU, serverCPU, allocs, bytes, commands, failed}
	case load.Herd:
		return []column{
			rate, ratio, acquired,
			{"longest wait", func(_ table, r row) string { return short(r.Longest) }},
			jain,
			{"holds of the goroutine with the fewest", func(_ table, r row) string { return number(r.Fewest) }},
			{"commands that one server runs", func(_ table, r row) string { return number(herdCommands(r)) }},
			clientCPU, serverCPU, failed,
		}
	case load.Crowd:
		return []column{
			{"release to next holder", func(_ table, r row) string { return short(at(r.HandoffGap, 0.5)) }},
			{"attempts that one server saw by then", func(_ table, r row) string { return number(crowdAttempts(r)) }},
			{"commands that one server ran by then", func(_ table, r row) string { return number(herdCommands(r)) }},
		}
	case load.Handoff:
		return []column{handoffGap, clientCPU, serverCPU, allocs, bytes, commands}
	default:
		return []column{
			{"commands/s while they wait", func(_ table, r row) string { return number(r.CommandsPerSecond) }},
			{"client CPU ms/s", func(_ table, r row) string { return measured(r.ClientCPU * r.Rate / 1e3) }},
			{"server CPU ms/s", func(_ table, r row) string { return measured(r.ServerCPU * r.Rate / 1e3) }},
			{"all through after", func(_ table, r row) string { return short(r.Drained) }},
			failed,
		}
	}
}

var (
	rate  = column{"per second", func(_ table, r row) string { return number(r.Rate) + spread(r.Rounds) }}
	ratio = column{"x", func(t table, r row) string { return times(r.Rate, yardstick(t).Rate) }}

	acquired   = column{"acquire p50 / 99 / 99.9", func(_ table, r row) string { return three(r.Acquire) }}
	both       = column{"acquire + release p50 / 99 / 99.9", func(_ table, r row) string { return three(r.Both) }}
	handoffGap = column{"release to next holder p50 / 99 / 99.9", func(_ table, r row) string { return three(r.HandoffGap) }}

	clientCPU = column{"client CPU µs", func(_ table, r row) string { return measured(r.ClientCPU) }}
	serverCPU = column{"server CPU µs", func(_ table, r row) string { return measured(r.ServerCPU) }}
	calls     = column{"system calls client, servers", func(_ table, r row) string {
		return measured(r.ClientCalls) + ", " + measured(r.ServerCalls)
	}}
	allocs   = column{"allocs", func(_ table, r row) string { return number(r.Allocs) }}
	bytes    = column{"bytes", func(_ table, r row) string { return number(r.Bytes) }}
	commands = column{"commands", func(_ table, r row) string { return number(r.Commands) }}
	jain     = column{"Jain", func(_ table, r row) string { return fmt.Sprintf("%.2f", r.Jain) }}
	failed   = column{"failed", func(_ table, r row) string {
		if r.Failed == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f %%", 100*r.Failed)
	}}
)

// spread returns the smallest and the largest rate of several rounds.
func spread(rounds []sample) string {
	rates := slices.DeleteFunc(each(rounds, func(s sample) float64 { return s.Rate }), func(v float64) bool { return v == 0 })
	if len(rates) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", number(slices.Min(rates)), number(slices.Max(rates)))
}

// yardstick returns the row that the others are compared with. It returns an empty row if there is
// no such row.
func yardstick(t table) row {
	for _, r := range t.Rows {
		if r.Kind == adapters.Yardstick {
			return r
		}
	}
	return row{}
}

// shown returns the columns in which some row has a text.
func shown(w workload, t table) (some []column) {
	for _, c := range columns(w.load.Shape) {
		for _, r := range t.Rows {
			if c.cell(t, r) != "" {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

func cell(c column, t table, r row) string {
	if r.Missing {
		return "–"
	}
	return c.cell(t, r)
}

// plainTable returns the table for a terminal.
func plainTable(w workload, t table) string {
	var text strings.Builder
	for _, c := range shown(w, t) {
		text.WriteString("\t" + c.head)
	}
	for _, r := range t.Rows {
		text.WriteString("\t\n" + r.Kind)
		for _, c := range shown(w, t) {
			text.WriteString("\t" + cell(c, t, r))
		}
	}
	var aligned strings.Builder
	out := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = out.Write([]byte(text.String() + "\t\n")) // writing to memory does not fail
	_ = out.Flush()
	return aligned.String()
}

// markdownTable returns the table for the document. The document names the usual machine elsewhere.
func markdownTable(w workload, t table, usual machine) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n**%s** (%s of %.3g s%s)\n\n| |", t.Title, rounds(t.Rounds), t.Seconds, t.Machine.unlike(usual))
	columns := shown(w, t)
	for _, c := range columns {
		fmt.Fprintf(&text, " %s |", c.head)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns)))
	for _, r := range t.Rows {
		fmt.Fprintf(&text, "\n| %s |", described(r.Kind))
		for _, c := range shown(w, t) {
			fmt.Fprintf(&text, " %s |", cell(c, t, r))
		}
	}
	return text.String() + "\n\n"
}

func rounds(n int) string {
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// described returns the name of an adapter with its note.
func described(kind string) string {
	k, err := adapters.Find(kind)
	if err != nil || k.Note == "" {
		return kind
	}
	return kind + " (" + k.Note + ")"
}

func times(a, of float64) string {
	if of == 0 {
		return ""
	}
	return significant(a/of) + "x"
}

func three(of []time.Duration) string {
	if at(of, 0.999) == 0 {
		return ""
	}
	return short(at(of, 0.5)) + " / " + short(at(of, 0.99)) + " / " + short(at(of, 0.999))
}

// short returns a duration in three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return significant(float64(d)/1e3) + " µs"
	case d < time.Second:
		return significant(float64(d)/1e6) + " ms"
	default:
		return significant(d.Seconds()) + " s"
	}
}

// measured returns a number that is never 0 if it was counted. System calls are not counted on a
// system without /proc, nor for the servers of --nodes.
func measured(v float64) string {
	if v == 0 {
		return "–"
	}
	return number(v)
}

// number returns v in three digits. A large number has commas between its thousands.
func number(v float64) string {
	if v < 1000 {
		return significant(v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// significant returns v in at most three digits, or all digits before the point.
func significant(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case v == 0:
		return "0"
	default:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	}
}
