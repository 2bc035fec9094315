package list

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Print prints the names as a table, and what the list is worth.
func (s *search) Print(p *terminal.Printer) {
	if s.failed != nil {
		p.Line("%s Nothing is listed: %s", p.In(terminal.Red, "✗"), cli.WithoutPrefix(s.failed))
		return
	}
	if len(s.names) > 0 {
		g := terminal.Table{Gap: 3}
		g.Row("", " ", "NAME", "OWNER", "ID", "LEFT", "FENCE")
		for _, l := range s.names {
			mark, color, remaining, fence := "●", terminal.Green, cli.Left(l.left), "–"
			if !l.held {
				mark, color, remaining = "?", terminal.Amber, "–"
			}
			if l.fence > 0 {
				fence = strconv.FormatInt(l.fence, 10)
			}
			g.Row(color, mark, oneline.Printable(l.name), cli.Holder(l.owner), cmp.Or(l.id, "–"), remaining, fence)
		}
		g.Print(p)
		p.Line("")
	}
	for i, err := range s.errs {
		if err != nil {
			p.Line("%s %s was not searched: %s", p.In(terminal.Red, "✗"), s.group.Nodes[i].Name(), oneline.Text(err))
		}
	}
	p.Line("%s. This is no snapshot: locks come and go while the nodes are searched.", s.summary())
	if s.cut != nil {
		p.Line("More names may be held: %v.", s.cut)
	}
}

// summary says how many names are held, and how many may be.
func (s *search) summary() string {
	sure := 0
	for _, l := range s.names {
		if l.held {
			sure++
		}
	}
	text := fmt.Sprintf("%d names are held", sure)
	switch sure {
	case 0:
		text = "No name is held"
	case 1:
		text = "1 name is held"
	}
	if maybe := len(s.names) - sure; maybe > 0 {
		text += fmt.Sprintf(", and %d more may be (?)", maybe)
	}
	return text
}

type listJSON struct {
	At       *time.Time     `json:"at,omitempty"`
	Complete bool           `json:"complete"`
	Names    []nameJSON     `json:"names"`
	Nodes    []nodeListJSON `json:"nodes"`
}

type nameJSON struct {
	Name   string `json:"name"`
	Bytes  []byte `json:"name_base64,omitempty"` // encoding/json replaces what is not UTF-8
	State  string `json:"state"`
	Owner  string `json:"owner"`
	ID     string `json:"id"`
	LeftMS *int64 `json:"left_ms,omitempty"`
	Fence  int64  `json:"fence,omitempty"`
}

type nodeListJSON struct {
	Node  string `json:"node"`
	Error string `json:"error,omitempty"`
}

// Changes returns the names with their holders and fences, and the nodes that answered.
func (s *search) Changes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v", s.failed != nil, s.cut)
	for _, l := range s.names {
		fmt.Fprintf(&b, "; %q %v %q %s %d", l.name, l.held, l.owner, l.id, l.fence)
	}
	for _, err := range s.errs {
		fmt.Fprintf(&b, "; %v", err != nil)
	}
	return b.String()
}

// Object returns the form for programs.
func (s *search) Object(at *time.Time) any {
	out := listJSON{At: at, Complete: s.cut == nil && s.failed == nil, Names: []nameJSON{}}
	for _, l := range s.names {
		j := nameJSON{Name: l.name, State: "unclear", Owner: l.owner, ID: l.id, Fence: l.fence}
		if !utf8.ValidString(l.name) {
			j.Bytes = []byte(l.name)
		}
		if l.held {
			j.State, j.LeftMS = "held", cli.Milliseconds(l.left)
		}
		out.Names = append(out.Names, j)
	}
	for i, n := range s.group.Nodes {
		j := nodeListJSON{Node: n.Name()}
		if err := s.errs[i]; err != nil {
			j.Error = oneline.Text(err)
		}
		out.Nodes = append(out.Nodes, j)
	}
	return out
}
