package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

func printStatus(w io.Writer, s *redlock.Status, is state) {
	switch is {
	case held:
		_, _ = fmt.Fprintf(w, "%s is held by %s for %s\n\n", s.Name, called(s.Owner), left(s.Left))
	case free:
		_, _ = fmt.Fprintf(w, "%s is free\n\n", s.Name)
	case unclear:
		_, _ = fmt.Fprintf(w, "%s may be held: too few masters answered to say\n\n", s.Name)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "  MASTER\tHOLDER\tLEFT")
	for _, n := range s.Nodes {
		switch {
		case n.Err != nil:
			_, _ = fmt.Fprintf(t, "✗ %s\t%v\t\n", n.Node, n.Err)
		case n.Held:
			_, _ = fmt.Fprintf(t, "● %s\t%s\t%s\n", n.Node, called(n.Owner), left(n.Left))
		default:
			_, _ = fmt.Fprintf(t, "○ %s\t–\t–\n", n.Node)
		}
	}
	_ = t.Flush()
}

func called(owner string) string {
	if owner == "" {
		return "somebody without a label"
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

func printStatusJSON(w io.Writer, s *redlock.Status, is state) {
	out := statusJSON{Name: s.Name, State: is}
	if s.Held {
		out.Owner, out.LeftMS = &s.Owner, milliseconds(s.Left)
	}
	for _, n := range s.Nodes {
		j := nodeStatusJSON{Node: n.Node, Held: n.Held, Owner: n.Owner}
		if n.Held {
			j.LeftMS = milliseconds(n.Left)
		}
		if n.Err != nil {
			j.Error = n.Err.Error()
		}
		out.Nodes = append(out.Nodes, j)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(out)
}

func milliseconds(d time.Duration) *int64 {
	ms := int64(-1)
	if d >= 0 {
		ms = d.Milliseconds()
	}
	return &ms
}
