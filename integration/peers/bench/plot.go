//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// plot draws the plots whose workloads have been measured.
func (rs *results) plot(folder string) error {
	both := func(r row) []time.Duration { return r.Both }
	handoffGap := func(r row) []time.Duration { return r.HandoffGap }
	for _, d := range []struct {
		file, workload, title, axis string
		of                          func(row) []time.Duration
	}{
		{"latency.svg", "uncontended/n=3/goroutines=64", "Acquire and release, 64 goroutines, 3 servers", "no longer than, ms", both},
		{"frozen.svg", "fault/frozen/goroutines=64", "Acquire and release, 64 goroutines, one of three servers frozen", "no longer than, ms", both},
		{"hand-over.svg", "hand-over", "From a release to the next holder, two clients", "no longer than, ms", handoffGap},
	} {
		t, ok := rs.Tables[d.workload]
		if !ok {
			continue
		}
		if err := drawDistribution(filepath.Join(folder, d.file), d.title, d.axis, t, d.of); err != nil {
			return err
		}
	}
	return rs.drawThroughput(filepath.Join(folder, "throughput.svg"))
}

// sheet returns an empty plot with a logarithmic x axis.
func sheet(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = false, true, legendAt
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	return p
}

const width, height = 8 * vg.Inch, 4.5 * vg.Inch

// legendAt is where the legend begins. A viewer without the font shows wider letters, so the names
// have room on their right.
const legendAt = 3 * vg.Inch

// drawDistribution draws one line for each adapter: the part of its operations that took no
// longer. It draws nothing if there are no points, because the logarithmic axis would have no
// bounds.
func drawDistribution(path, title, axis string, t table, of func(row) []time.Duration) error {
	p := sheet(title, axis, "part of all")
	drawn := 0
	for i, r := range t.Rows {
		points := make(plotter.XYs, 0, len(curve))
		for j, d := range of(r) {
			if d > 0 {
				points = append(points, plotter.XY{X: float64(d) / 1e6, Y: curve[j]})
			}
		}
		drawn += len(points)
		if err := addLine(p, r.Kind, i, points); err != nil {
			return err
		}
	}
	if drawn == 0 {
		return nil
	}
	return p.Save(width, height, path)
}

// drawThroughput draws one line for each adapter over the numbers of goroutines that were measured.
func (rs *results) drawThroughput(path string) error {
	p := sheet("Acquire and release, 3 servers", "goroutines", "per second")
	drawn := 0
	for i, k := range adapters.Kinds() {
		var points plotter.XYs
		for _, g := range []int{1, 8, 64, 512} {
			if r, ok := rs.row(fmt.Sprintf("uncontended/n=3/goroutines=%d", g), k.Name); ok && !r.Missing {
				points = append(points, plotter.XY{X: float64(g), Y: r.Rate})
			}
		}
		drawn += len(points)
		if err := addLine(p, k.Name, i, points); err != nil {
			return err
		}
	}
	if drawn == 0 {
		return nil
	}
	p.Legend.Top, p.Legend.XOffs = true, 0
	return p.Save(width, height, path)
}

// addLine draws a line in the adapter's colour, which is the same in all plots. A baseline has no
// such colour, and is dashed.
func addLine(p *plot.Plot, name string, row int, points plotter.XYs) error {
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(slices.Clone(points))
	if err != nil {
		return err
	}
	number := slices.IndexFunc(adapters.Kinds(), func(k adapters.Kind) bool { return k.Name == name })
	if number < 0 {
		number = 7*2 + row
	}
	line.Color, line.Dashes = plotutil.Color(number), plotutil.Dashes(number/7)
	if name == adapters.Ours {
		line.Width = vg.Points(3)
	}
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}
