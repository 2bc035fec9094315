package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// printReport prints a table of the nodes, and the findings below it. users are those of the nodes.
func printReport(p *terminal.Printer, r *doctor.Report, users []string) {
	g := terminal.Table{Gap: 2}
	head, name, guarded := []string{"NODE", "ROLE", "REDIS", "UP", "CLOCK", "ANSWER", "KEEPS"}, 19, isGuarded(r)
	if guarded {
		head, name = append(head, "GUARD"), 12
	}
	g.Row("", " ", head...)
	for _, n := range r.Nodes {
		cells := details(n)
		if guarded {
			keeps := &cells[len(cells)-1]
			*keeps = strings.TrimPrefix(*keeps, "fsync ")
			cells = append(cells, guardColumn(n))
		}
		grade := worstFinding(n.Findings)
		g.Row(colorOf(grade), sign(grade), append([]string{tail(n.Node, name)}, cells...)...)
	}
	g.Print(p)
	if len(r.All()) > 0 {
		p.Line("")
	}
	counts := map[doctor.Grade]int{}
	for _, f := range r.All() {
		counts[f.Grade]++
	}
	all := grouped(r)
	for _, grade := range []doctor.Grade{doctor.Error, doctor.Warning, doctor.Note} {
		for _, f := range all {
			if f.Grade == grade {
				printFinding(p, f)
			}
		}
	}
	if grants := missingRights(r, users); grants != nil {
		p.Line("\nIn redis-cli, on each node whose user lacks rights, this grants what is missing:")
		for _, grant := range grants {
			p.Line("%s", grant)
		}
	}
	p.Line("\n%s\n%s", summary(len(r.Nodes), counts), ballotOf(r))
}

// missingRights returns a command for each user that lacks rights, with all that it lacks on any node. It is
// not folded, so that it can be copied.
func missingRights(r *doctor.Report, users []string) (commands []string) {
	missing := make(map[string][]string)
	var order []string
	for i, n := range r.Nodes {
		for _, right := range n.MissingRights {
			user := users[i]
			if missing[user] == nil {
				order = append(order, user)
			}
			if !strings.HasPrefix(right, "~") && !strings.HasPrefix(right, "&") {
				right = "+" + right
			}
			if !slices.Contains(missing[user], right) {
				missing[user] = append(missing[user], right)
			}
		}
	}
	for _, user := range order {
		commands = append(commands, "ACL SETUSER "+user+" "+strings.Join(missing[user], " "))
	}
	return commands
}

// grouped returns the findings, with one in the place of those that say the same about several nodes.
func grouped(r *doctor.Report) (all []doctor.Finding) {
	nodes := make(map[doctor.Finding][]string) // by the finding without its node
	var order []doctor.Finding
	for _, n := range r.Nodes {
		for _, f := range n.Findings {
			text, named := strings.CutPrefix(f.Text, n.Node+" ")
			if !named {
				order = append(order, f)
				continue
			}
			f.Text = text
			if nodes[f] == nil {
				order = append(order, f)
			}
			nodes[f] = append(nodes[f], n.Node)
		}
	}
	for _, f := range order {
		switch names := nodes[f]; {
		case len(names) == 1:
			f.Text = names[0] + " " + f.Text
		case len(names) > 1 && len(names) == len(r.Nodes):
			f.Text = fmt.Sprintf("all %d nodes: each %s", len(names), f.Text)
		case len(names) > 1:
			f.Text = oneline.List(names, ", ") + ": each " + f.Text
		}
		all = append(all, f)
	}
	return append(all, r.Findings...)
}

// details returns the cells of a node after its name, each within its width.
func details(n doctor.Node) []string {
	if !n.Answered {
		return []string{"–", "–", "–", "–", "–", "–"}
	}
	ahead := "–"
	if n.ClockRead {
		ahead = fmt.Sprintf("%+dms", n.ClockOffset.Round(time.Millisecond).Milliseconds())
		if n.ClockOffset.Abs() >= time.Second {
			ahead = fmt.Sprintf("%+.0fs", n.ClockOffset.Seconds())
		}
	}
	answer := fmt.Sprintf("%.1fms", float64(n.RoundTrip.Microseconds())/1000)
	keeps := strings.TrimPrefix(n.Persistence, "AOF, ")
	return []string{cmp.Or(n.Role, "–"), tail(cmp.Or(n.Version, "–"), 7), age(n.Uptime), ahead, answer, keeps}
}

// isGuarded reports whether any node has a state under the restart guard.
func isGuarded(r *doctor.Report) bool {
	return slices.ContainsFunc(r.Nodes, func(n doctor.Node) bool { return n.Guard != "" })
}

// guardColumn describes a node's state under the guard in ten columns.
func guardColumn(n doctor.Node) string {
	if n.Guard == examine.StateQuarantined {
		return "wait " + age(n.Quarantine+time.Second-1) // not less than it is
	}
	return cmp.Or(n.Guard, "–")
}

// tail returns the end of a text that is too long: names differ at the end more often.
func tail(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return "…" + string(r[len(r)-most+1:])
}

// age formats a duration in its largest unit, and in the next one if the first number is below ten:
// 47 hours are not one day.
func age(d time.Duration) string {
	units := []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		n := d / u.unit
		switch rest := d % u.unit; {
		case n == 0 && u.unit > time.Second:
		case n >= 10 || u.unit == time.Second || rest < units[i+1].unit:
			return fmt.Sprintf("%d%s", n, u.name)
		default:
			return fmt.Sprintf("%d%s%d%s", n, u.name, rest/units[i+1].unit, units[i+1].name)
		}
	}
	return "0s"
}

// worstFinding returns the worst grade of the findings, or GradeNote if there are none.
func worstFinding(all []doctor.Finding) doctor.Grade {
	for _, grade := range []doctor.Grade{doctor.Error, doctor.Warning} {
		if slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Grade == grade }) {
			return grade
		}
	}
	return doctor.Note
}

func sign(grade doctor.Grade) string {
	switch grade {
	case doctor.Error:
		return "✗"
	case doctor.Warning:
		return "!"
	}
	return "✓"
}

// colorOf returns the colour of a grade.
func colorOf(grade doctor.Grade) terminal.Color {
	switch grade {
	case doctor.Error:
		return terminal.Red
	case doctor.Warning:
		return terminal.Amber
	}
	return terminal.Green
}

// printFinding prints a finding with its grade, broken between words.
func printFinding(p *terminal.Printer, f doctor.Finding) {
	const margin = 9
	grade := terminal.Pad(string(f.Grade), margin)
	if f.Grade != doctor.Note {
		grade = p.In(colorOf(f.Grade), grade)
	}
	p.Line("%s%s", grade, terminal.Folded(f.Text, terminal.Columns-margin, "\n"+strings.Repeat(" ", margin)))
}

func summary(nodes int, counts map[doctor.Grade]int) string {
	parts := make([]string, 3)
	for i, grade := range []doctor.Grade{doctor.Error, doctor.Warning, doctor.Note} {
		parts[i] = terminal.Plural(counts[grade], string(grade))
	}
	return terminal.Plural(nodes, "node") + ": " + strings.Join(parts, ", ")
}
