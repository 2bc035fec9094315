package bench

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
)

// benchResult holds the measurements of all clients together.
type benchResult struct {
	nodes    []string
	embedded bool
	clients  int
	took     time.Duration
	sample
	left []string
}

func (r *benchResult) merge(s *sample) {
	r.acquire.merge(&s.acquire)
	r.release.merge(&s.release)
	r.both.merge(&s.both)
	for kind, n := range s.errors {
		if r.errors == nil {
			r.errors = make(map[string]int)
		}
		r.errors[kind] += n
	}
}

func (r *benchResult) failed() (n int) {
	for _, times := range r.errors {
		n += times
	}
	return n
}

func (r *benchResult) perSecond() float64 {
	return float64(r.both.n) / max(r.took.Seconds(), 1e-9)
}

// barWidth is how long the longest bar is.
const barWidth = 40

func (r *benchResult) print(p *terminal.Printer) {
	where := terminal.Plural(len(r.nodes), "node")
	if r.embedded {
		where += " inside of this process, which say nothing about Redis"
	}
	p.Line("%s, %s: %s locks acquired and released in %s, %s a second", where, terminal.Plural(r.clients, "client"),
		p.In(terminal.Bold, terminal.Thousands(int64(r.both.n))), terminal.Short(r.took), p.In(terminal.Bold, terminal.Thousands(int64(r.perSecond()))))
	if r.both.n > 0 {
		p.Line("\n           %9s %9s %9s %9s %9s %9s", "LEAST", "MEDIAN", "90 %", "99 %", "99.9 %", "MOST")
		r.acquire.printRow(p, "acquire")
		r.release.printRow(p, "release")
		r.both.printRow(p, "both")
		p.Line("\n  both, how often:")
		r.both.printBars(p)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.errors)) {
		p.Bad("%s: %s", kind, terminal.Plural(r.errors[kind], "time"))
	}
	for _, name := range r.left {
		p.Bad("left behind, until it expires: %s", name)
	}
}

func (h *histogram) printRow(p *terminal.Printer, what string) {
	p.Line("  %-8s %9s %9s %9s %9s %9s %9s", what, terminal.Short(h.least), terminal.Short(h.quantile(0.5)), terminal.Short(h.quantile(0.9)),
		terminal.Short(h.quantile(0.99)), terminal.Short(h.quantile(0.999)), terminal.Short(h.most))
}

func (h *histogram) printBars(p *terminal.Printer) {
	most := 0
	for _, b := range h.bars() {
		most = max(most, b.n)
	}
	for _, b := range h.bars() {
		drawn := strings.Repeat("█", (b.n*barWidth+most-1)/most)
		p.Line("  below %9s  %s %s", terminal.Short(b.below), p.In(terminal.Blue, drawn), terminal.Thousands(int64(b.n)))
	}
}

type benchJSON struct {
	Nodes     []string       `json:"nodes"`
	Embedded  bool           `json:"embedded"`
	Clients   int            `json:"clients"`
	TookMS    int64          `json:"took_ms"`
	Done      int            `json:"done"`
	PerSecond float64        `json:"per_second"`
	Failed    int            `json:"failed"`
	Errors    map[string]int `json:"errors"`
	Left      []string       `json:"left"`
	Acquire   latencyJSON    `json:"acquire"`
	Release   latencyJSON    `json:"release"`
	Both      latencyJSON    `json:"both"`
}

type latencyJSON struct {
	Min     float64      `json:"min_us"`
	Mean    float64      `json:"mean_us"`
	P50     float64      `json:"p50_us"`
	P90     float64      `json:"p90_us"`
	P99     float64      `json:"p99_us"`
	P999    float64      `json:"p999_us"`
	Max     float64      `json:"max_us"`
	Buckets []bucketJSON `json:"buckets"`
}

type bucketJSON struct {
	Below float64 `json:"below_us"`
	N     int     `json:"n"`
}

func (r *benchResult) object() benchJSON {
	errs := r.errors
	if errs == nil {
		errs = map[string]int{}
	}
	return benchJSON{
		Nodes: append([]string{}, r.nodes...), Embedded: r.embedded, Clients: r.clients, TookMS: r.took.Milliseconds(),
		Done: r.both.n, PerSecond: r.perSecond(), Failed: r.failed(), Errors: errs, Left: append([]string{}, r.left...),
		Acquire: newLatencyJSON(&r.acquire), Release: newLatencyJSON(&r.release), Both: newLatencyJSON(&r.both),
	}
}

func newLatencyJSON(h *histogram) latencyJSON {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	j := latencyJSON{
		Min: us(h.least), Mean: us(h.mean()), P50: us(h.quantile(0.5)), P90: us(h.quantile(0.9)),
		P99: us(h.quantile(0.99)), P999: us(h.quantile(0.999)), Max: us(h.most), Buckets: []bucketJSON{},
	}
	for _, b := range h.bars() {
		j.Buckets = append(j.Buckets, bucketJSON{us(b.below), b.n})
	}
	return j
}
