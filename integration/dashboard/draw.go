package main

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Sizes are in units of the picture. A unit is one pixel at the picture's natural width.
const (
	column, row   = 50, 30 // of Grafana's grid
	gap           = 4      // around a panel
	titleHeight   = 34
	legendRow     = 16
	left, right   = 52, 12 // of the plot, in its panel
	above, below  = 34, 20
	letter        = 6.3 // the width of one in a legend, about
	swatch, apart = 16, 14
	colours       = 8
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" role="img" aria-labelledby="title desc" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="11">
  <title id="title">The dashboard %[3]s over a run with faults</title>
  <desc id="desc">The panels of docs/telemetry/dashboard.json, drawn by integration/dashboard from the answers of a Prometheus.</desc>
  <style>
    .ground { fill: #f6f8fa } .panel { fill: #ffffff; stroke: #d0d7de } text { fill: #57606a } .title { fill: #1f2328; font-size: 13px; font-weight: 600 }
    .grid { stroke: #d8dee4 } .l { fill: none; stroke-width: 1.3; stroke-linejoin: round } .s { stroke-width: 3 }
    .c0 { stroke: #1a7f37 } .c1 { stroke: #bf8700 } .c2 { stroke: #0969da } .c3 { stroke: #cf222e } .c4 { stroke: #8250df } .c5 { stroke: #1b7c83 } .c6 { stroke: #bf3989 } .c7 { stroke: #6e7781 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #010409 } .panel { fill: #0d1117; stroke: #30363d } text { fill: #9198a1 } .title { fill: #e6edf3 } .grid { stroke: #21262d }
      .c0 { stroke: #3fb950 } .c1 { stroke: #d29922 } .c2 { stroke: #58a6ff } .c3 { stroke: #ff7b72 } .c4 { stroke: #bc8cff } .c5 { stroke: #39c5cf } .c6 { stroke: #f778ba } .c7 { stroke: #8b949e }
    }
  </style>
  <rect class="ground" width="%[1]d" height="%[2]d" rx="6"/>
  <text class="title" x="12" y="22">%[3]s</text>
`

// picture returns the dashboard as SVG that is legible on light and dark backgrounds.
func picture(title string, all []drawing) string {
	wide, high := 0, 0
	for _, d := range all {
		wide, high = max(wide, d.GridPos.X+d.GridPos.W), max(high, d.GridPos.Y+d.GridPos.H)
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, wide*column, high*row+titleHeight, html.EscapeString(title))
	for _, d := range all {
		d.draw(&b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws one panel. The origin is the corner of the panel's grid position.
func (d drawing) draw(b *strings.Builder) {
	g := d.GridPos
	width, height := g.W*column, g.H*row
	rows := d.legend(width)
	f := frame{
		axis: newAxis(d.FieldConfig.Defaults.Unit, d.largest()), span: d.span,
		width: float64(width - left - right), height: float64(height - above - below - legendRow*len(rows) - 2*gap),
	}
	fmt.Fprintf(b, "  <g transform=\"translate(%d %d)\">\n", g.X*column, g.Y*row+titleHeight)
	fmt.Fprintf(b, "    <rect class=\"panel\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", gap, gap, width-2*gap, height-2*gap)
	fmt.Fprintf(b, "    <text class=\"title\" x=\"14\" y=\"23\">%s</text>\n", html.EscapeString(d.Title))
	f.draw(b)
	for i, s := range d.lines {
		fmt.Fprintf(b, "    <path class=\"l c%d\" d=\"%s\"/>\n", i%colours, f.path(s.points))
	}
	for i, row := range rows {
		y := height - gap - 8 - legendRow*(len(rows)-1-i)
		for _, e := range row {
			fmt.Fprintf(b, "    <path class=\"s c%d\" d=\"M%d %dh10\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
				e.line%colours, e.x, y-4, e.x+swatch, y, html.EscapeString(d.lines[e.line].name))
		}
	}
	b.WriteString("  </g>\n")
}

func (d drawing) largest() (most float64) {
	for _, s := range d.lines {
		for _, p := range s.points {
			if !math.IsNaN(p.value) && !math.IsInf(p.value, 0) {
				most = max(most, p.value)
			}
		}
	}
	return most
}

// entry is a name in the legend.
type entry struct{ line, x int }

// legend arranges the names in rows as wide as the panel.
func (d drawing) legend(width int) (rows [][]entry) {
	x := width
	for i, s := range d.lines {
		wide := swatch + int(letter*float64(len([]rune(s.name))))
		if x+wide > width-right {
			rows, x = append(rows, nil), 14
		}
		last := len(rows) - 1
		rows[last] = append(rows[last], entry{i, x})
		x += wide + apart
	}
	return rows
}

// frame is the plot area of a panel.
type frame struct {
	axis          axis
	span          time.Duration
	width, height float64
}

// draw draws the grid and its labels.
func (f frame) draw(b *strings.Builder) {
	for i := range f.axis.steps + 1 {
		y := f.y(float64(i) * f.axis.step)
		fmt.Fprintf(b, "    <path class=\"grid\" d=\"M%d %.1fh%.0f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			left, y, f.width, left-5, y+4, f.axis.label(i))
	}
	for _, at := range times(f.span) {
		fmt.Fprintf(b, "    <text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", f.x(at), f.y(0)+15, clockOf(at))
	}
}

func (f frame) x(at time.Duration) float64 { return left + f.width*at.Seconds()/f.span.Seconds() }

func (f frame) y(value float64) float64 { return above + f.height*(1-value/f.axis.end()) }

// path returns the path of a line. It is interrupted where there is no value, and a single point is
// visible.
func (f frame) path(points []point) string {
	var b strings.Builder
	pen := "M"
	for i, p := range points {
		if i > 0 && p.at-points[i-1].at > scrapeEvery*3/2 {
			pen = "M"
		}
		if math.IsNaN(p.value) || math.IsInf(p.value, 0) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, f.x(p.at), f.y(p.value))
		if pen == "M" {
			b.WriteString("h.1")
		}
		pen = "L"
	}
	return b.String()
}
