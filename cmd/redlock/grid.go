package main

import (
	"strings"
	"unicode/utf8"
)

// grid is a table: a sign, and columns as wide as what is in them.
type grid struct {
	gap  int // between columns
	rows []gridRow
}

type gridRow struct {
	sign  string
	ink   ink
	cells []string
	span  bool // the last cell goes on over the columns behind it
}

func (g *grid) row(i ink, sign string, cells ...string) {
	g.rows = append(g.rows, gridRow{sign: sign, ink: i, cells: cells})
}

// spanning is a row whose last cell may be as long as it likes.
func (g *grid) spanning(i ink, sign string, cells ...string) {
	g.rows = append(g.rows, gridRow{sign: sign, ink: i, cells: cells, span: true})
}

func (g *grid) print(p *page) {
	widths := g.widths()
	for _, r := range g.rows {
		line := []string{p.in(r.ink, r.sign), " "}
		for i, text := range r.cells {
			if i < len(r.cells)-1 {
				text = pad(text, widths[i]+g.gap)
			}
			line = append(line, text)
		}
		p.line("%s", strings.TrimRight(strings.Join(line, ""), " "))
	}
}

func (g *grid) widths() (widths []int) {
	for _, r := range g.rows {
		for i, text := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if !r.span || i < len(r.cells)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(text))
			}
		}
	}
	return widths
}
