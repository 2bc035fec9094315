package main

import (
	"strconv"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

func printStatus(p *printer, s *redlock.Status) {
	name := p.in(bold, oneline.Printable(s.Name))
	switch stateOf(s) {
	case held:
		p.line("%s is held by %s for %s\n", name, called(s.Owner), left(s.Remaining))
	case free:
		p.line("%s is free\n", name)
	case unclear:
		p.line("%s may be held: too few nodes answered to tell\n", name)
	}
	g := table{gap: 3}
	g.row("", " ", "NODE", "HOLDER", "LEFT")
	for _, n := range s.Nodes {
		switch {
		case n.Err != nil:
			g.spanning(red, "✗", n.Node, n.Err.Error())
		case n.Held:
			g.row(green, "●", n.Node, called(n.Owner), left(n.Remaining))
		default:
			g.row(faint, "○", n.Node, "–", "–")
		}
	}
	g.print(p)
}

func called(owner string) string {
	if owner == "" {
		return "a client without a label"
	}
	return strconv.Quote(owner)
}

func left(d time.Duration) string {
	if d < 0 {
		return "ever: it has no expiry"
	}
	return d.Round(time.Millisecond).String()
}

type statusJSON struct {
	At     *time.Time       `json:"at,omitempty"`
	Name   string           `json:"name"`
	State  state            `json:"state"`
	Owner  *string          `json:"owner,omitempty"`
	LeftMS *int64           `json:"left_ms,omitempty"`
	Nodes  []nodeStatusJSON `json:"nodes"`
}

type nodeStatusJSON struct {
	Node   string `json:"node"`
	Held   bool   `json:"held"`
	Owner  string `json:"owner,omitempty"`
	LeftMS *int64 `json:"left_ms,omitempty"`
	Error  string `json:"error,omitempty"`
}

func newStatusJSON(s *redlock.Status) statusJSON {
	out := statusJSON{Name: s.Name, State: stateOf(s)}
	if s.Held {
		out.Owner, out.LeftMS = &s.Owner, milliseconds(s.Remaining)
	}
	for _, n := range s.Nodes {
		j := nodeStatusJSON{Node: n.Node, Held: n.Held, Owner: n.Owner}
		if n.Held {
			j.LeftMS = milliseconds(n.Remaining)
		}
		if n.Err != nil {
			j.Error = n.Err.Error()
		}
		out.Nodes = append(out.Nodes, j)
	}
	return out
}

func milliseconds(d time.Duration) *int64 {
	ms := int64(-1)
	if d >= 0 {
		ms = d.Milliseconds()
	}
	return &ms
}
