package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// statusView is an answer to a status query.
type statusView redlock.Status

// Print prints the holder, and a table of the nodes.
func (s *statusView) Print(p *terminal.Printer) {
	name := p.In(terminal.Bold, oneline.Printable(s.Name))
	switch stateOf((*redlock.Status)(s)) {
	case held:
		p.Line("%s is held by %s for %s%s\n", name, cli.Holder(s.Owner), cli.Left(s.Remaining), cli.WithID(s.ID))
	case free:
		p.Line("%s is free\n", name)
	case foreign:
		p.Line("%s can't be locked: its key is not a lock\n", name)
	case unclear:
		p.Line("%s may be held: too few nodes answered to tell\n", name)
	}
	g := terminal.Table{Gap: 3}
	g.Row("", " ", "NODE", "HOLDER", "ID", "LEFT")
	for _, n := range s.Nodes {
		switch {
		case n.Err != nil:
			g.Spanning(terminal.Red, "✗", n.Node, n.Err.Error())
		case n.Held:
			g.Row(terminal.Green, "●", n.Node, cli.Holder(n.Owner), cmp.Or(n.ID, "–"), cli.Left(n.Remaining))
		default:
			g.Row(terminal.Faint, "○", n.Node, "–", "–", "–")
		}
	}
	g.Print(p)
}

type statusJSON struct {
	At     *time.Time       `json:"at,omitempty"`
	Name   string           `json:"name"`
	State  state            `json:"state"`
	Owner  *string          `json:"owner,omitempty"`
	ID     string           `json:"id,omitempty"`
	LeftMS *int64           `json:"left_ms,omitempty"`
	Nodes  []nodeStatusJSON `json:"nodes"`
}

type nodeStatusJSON struct {
	Node   string `json:"node"`
	Held   bool   `json:"held"`
	Owner  string `json:"owner,omitempty"`
	ID     string `json:"id,omitempty"`
	LeftMS *int64 `json:"left_ms,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Changes returns the state, the holder, the nodes that hold the key and the nodes that answer.
func (s *statusView) Changes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %q %s", stateOf((*redlock.Status)(s)), s.Held, s.Owner, s.ID)
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "; %v %q %s %v", n.Held, n.Owner, n.ID, n.Err != nil)
	}
	return b.String()
}

// Object returns the form for programs.
func (s *statusView) Object(at *time.Time) any {
	out := statusJSON{At: at, Name: s.Name, State: stateOf((*redlock.Status)(s))}
	if s.Held {
		out.Owner, out.ID, out.LeftMS = &s.Owner, s.ID, cli.Milliseconds(s.Remaining)
	}
	for _, n := range s.Nodes {
		j := nodeStatusJSON{Node: n.Node, Held: n.Held, Owner: n.Owner, ID: n.ID}
		if n.Held {
			j.LeftMS = cli.Milliseconds(n.Remaining)
		}
		if n.Err != nil {
			j.Error = n.Err.Error()
		}
		out.Nodes = append(out.Nodes, j)
	}
	return out
}
