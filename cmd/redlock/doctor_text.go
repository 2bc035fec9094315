package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/go-redlock/redlock"
)

// columns is how wide the output is: a terminal's least.
const columns = 80

// printReport shows what was found: a table, and below it the findings.
func printReport(w io.Writer, r *redlock.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head, name, guarded := "  MASTER\tROLE\tREDIS\tUP\tCLOCK\tANSWER\tKEEPS", 19, isGuarded(r)
	if guarded {
		head, name = head+"\tGUARD", 12
	}
	_, _ = fmt.Fprintln(t, head)
	for _, n := range r.Nodes {
		cells := particulars(n)
		if guarded {
			keeps := &cells[len(cells)-1]
			*keeps = strings.TrimPrefix(*keeps, "fsync ")
			cells = append(cells, standing(n))
		}
		_, _ = fmt.Fprintf(t, "%s %s\t%s\n", sign(worst(n.Findings)), tail(n.Node, name), strings.Join(cells, "\t"))
	}
	_ = t.Flush()
	if len(r.All()) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	counts := map[redlock.Grade]int{}
	for _, grade := range []redlock.Grade{redlock.GradeError, redlock.GradeWarning, redlock.GradeNote} {
		for _, f := range r.All() {
			if f.Grade == grade {
				counts[grade]++
				printFinding(w, f)
			}
		}
	}
	_, _ = fmt.Fprintf(w, "\n%s\n", summary(len(r.Nodes), counts))
}

// particulars are a row's cells behind the name, each within its width.
func particulars(n redlock.NodeReport) []string {
	if !n.Answered {
		return []string{"–", "–", "–", "–", "–", "–"}
	}
	ahead := "–"
	if n.Timed {
		ahead = fmt.Sprintf("%+dms", n.ClockOffset.Round(time.Millisecond).Milliseconds())
		if n.ClockOffset.Abs() >= time.Second {
			ahead = fmt.Sprintf("%+.0fs", n.ClockOffset.Seconds())
		}
	}
	answer := fmt.Sprintf("%.1fms", float64(n.RoundTrip.Microseconds())/1000)
	keeps := strings.TrimPrefix(n.Persistence, "AOF, ")
	return []string{or(n.Role), tail(or(n.Version), 7), age(n.Uptime), ahead, answer, keeps}
}

// isGuarded reports whether any master stands somewhere with the restart guard.
func isGuarded(r *redlock.Report) bool {
	return slices.ContainsFunc(r.Nodes, func(n redlock.NodeReport) bool { return n.Guard != "" })
}

// standing is where a master stands with the guard, in ten columns.
func standing(n redlock.NodeReport) string {
	if n.Guard == redlock.GuardQuarantined {
		return "wait " + age(n.Quarantine)
	}
	return or(string(n.Guard))
}

func or(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// tail is the end of what is too long: names differ there more often.
func tail(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return "…" + string(r[len(r)-most+1:])
}

// age is a time in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func worst(all []redlock.Finding) (grade redlock.Grade) {
	for _, f := range all {
		grade = max(grade, f.Grade)
	}
	return grade
}

func sign(grade redlock.Grade) string {
	switch grade {
	case redlock.GradeError:
		return "✗"
	case redlock.GradeWarning:
		return "!"
	}
	return "✓"
}

// printFinding writes one with its grade, broken into lines between words.
func printFinding(w io.Writer, f redlock.Finding) {
	const margin = 9
	line := fmt.Sprintf("%-*s", margin, f.Grade.String())
	for word := range strings.FieldsSeq(f.Text) {
		if utf8.RuneCountInString(line)+len(" ")+utf8.RuneCountInString(word) > columns && strings.TrimSpace(line) != "" {
			_, _ = fmt.Fprintln(w, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", margin)
		}
		if !strings.HasSuffix(line, " ") {
			line += " "
		}
		line += word
	}
	_, _ = fmt.Fprintln(w, line)
}

func summary(masters int, counts map[redlock.Grade]int) string {
	of := func(grade redlock.Grade) string {
		if counts[grade] == 1 {
			return fmt.Sprintf("1 %s", grade)
		}
		return fmt.Sprintf("%d %ss", counts[grade], grade)
	}
	verdict := "fit to hold locks"
	if counts[redlock.GradeError] > 0 {
		verdict = "not all fit to hold locks"
	}
	noun := "masters"
	if masters == 1 {
		noun = "master"
	}
	return fmt.Sprintf("%d %s, %s: %s, %s, %s", masters, noun, verdict,
		of(redlock.GradeError), of(redlock.GradeWarning), of(redlock.GradeNote))
}
