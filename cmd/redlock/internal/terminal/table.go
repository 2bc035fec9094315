package terminal

import (
	"strings"
	"unicode/utf8"
)

// Table is a table for a terminal: a sign, and columns as wide as their longest cell.
type Table struct {
	Gap  int // between columns
	rows []tableRow
}

type tableRow struct {
	mark  string
	color Color
	cells []string
	span  bool // the last cell extends over the columns after it
}

// Row adds a row.
func (g *Table) Row(i Color, sign string, cells ...string) {
	g.rows = append(g.rows, tableRow{mark: sign, color: i, cells: cells})
}

// Spanning adds a row whose last cell may be as long as it likes.
func (g *Table) Spanning(i Color, sign string, cells ...string) {
	g.rows = append(g.rows, tableRow{mark: sign, color: i, cells: cells, span: true})
}

// Print prints the table.
func (g *Table) Print(p *Printer) {
	widths := g.widths()
	for _, r := range g.rows {
		line := []string{p.In(r.color, r.mark), " "}
		for i, text := range r.cells {
			if i < len(r.cells)-1 {
				text = Pad(text, widths[i]+g.Gap)
			}
			line = append(line, text)
		}
		p.Line("%s", strings.TrimRight(strings.Join(line, ""), " "))
	}
}

func (g *Table) widths() (widths []int) {
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
