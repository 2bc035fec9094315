package main

import (
	"strings"
	"unicode/utf8"
)

// table is a table for a terminal: a sign, and columns as wide as their longest cell.
type table struct {
	gap  int // between columns
	rows []tableRow
}

type tableRow struct {
	mark  string
	color color
	cells []string
	span  bool // the last cell extends over the columns after it
}

func (g *table) row(i color, sign string, cells ...string) {
	g.rows = append(g.rows, tableRow{mark: sign, color: i, cells: cells})
}

// spanning is a row whose last cell may be as long as it likes.
func (g *table) spanning(i color, sign string, cells ...string) {
	g.rows = append(g.rows, tableRow{mark: sign, color: i, cells: cells, span: true})
}

func (g *table) print(p *printer) {
	widths := g.widths()
	for _, r := range g.rows {
		line := []string{p.in(r.color, r.mark), " "}
		for i, text := range r.cells {
			if i < len(r.cells)-1 {
				text = pad(text, widths[i]+g.gap)
			}
			line = append(line, text)
		}
		p.line("%s", strings.TrimRight(strings.Join(line, ""), " "))
	}
}

func (g *table) widths() (widths []int) {
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
