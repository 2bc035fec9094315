//go:build unix

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A target is a value that this library is meant to reach.
type target struct {
	what, aim string
	measured  figure
	met       func(value float64) bool
	text      func(value float64) string
	limit     figure // the value of bare pipelining; may be nil
}

// A figure looks up a value in the results.
type figure func(rs *results) (v value, known bool)

// A value is the median of the rounds, with the smallest and the largest of them if these are known.
type value struct{ middle, low, high float64 }

// minimum returns a target that is met by a value of at least the bound, and maximum one that is
// met by a value of at most the bound.
func minimum(what string, least float64, measured, limit figure) target {
	return target{what, fmt.Sprintf("≥ %vx", least), measured, atLeast(least), inTimes, limit}
}

func maximum(what string, most float64, measured, limit figure) target {
	return target{what, fmt.Sprintf("≤ %v", most), measured, atMost(most), significant, limit}
}

func atLeast(least float64) func(float64) bool { return func(v float64) bool { return v >= least } }
func atMost(most float64) func(float64) bool   { return func(v float64) bool { return v <= most } }
func inTimes(v float64) string                 { return significant(v) + "x" }

var fenced, guarded, async = adapters.Ours + ", fencing", adapters.Ours + ", fencing and guard", adapters.Ours + ", async release"

// faster returns how many times as many operations one adapter makes as another.
func faster(workload, one, other string) figure {
	return compared(workload, one, workload, other, rates)
}

// compared returns a figure of one row as a multiple of that of another row. Rows that were measured in
// turns are compared round by round, because a machine may become slower or faster in between.
func compared(workload, kind, otherWorkload, otherKind string, q quantity) figure {
	return func(rs *results) (value, bool) {
		one, ok := rs.row(workload, kind)
		other, also := rs.row(otherWorkload, otherKind)
		if !ok || !also || one.Missing || other.Missing || q.of(other) == 0 {
			return value{}, false
		}
		var ratios []float64
		for i := range min(len(one.Rounds), len(other.Rounds)) {
			if below := q.in(other.Rounds[i]); below != 0 && q.in(one.Rounds[i]) != 0 {
				ratios = append(ratios, q.in(one.Rounds[i])/below)
			}
		}
		rounds := max(len(one.Rounds), len(other.Rounds))
		switch {
		case rounds == 0: // older results
			return value{middle: q.of(one) / q.of(other)}, true
		case len(ratios) <= rounds/2: // in most rounds one of them has no result
			return value{}, false
		}
		return value{stats.Median(ratios, stats.Mean[float64]), slices.Min(ratios), slices.Max(ratios)}, true
	}
}

// only returns a figure of one row.
func only(workload, kind string, of func(row) float64) figure {
	return func(rs *results) (value, bool) {
		r, ok := rs.row(workload, kind)
		return value{middle: of(r)}, ok && !r.Missing
	}
}

// A quantity is what rows are compared by: of all rounds, and of one.
type quantity struct {
	of func(row) float64
	in func(sample) float64
}

var (
	rates      = quantity{func(r row) float64 { return r.Rate }, func(s sample) float64 { return s.Rate }}
	p50        = quantity{func(r row) float64 { return float64(at(r.Both, 0.5)) }, func(s sample) float64 { return float64(s.P50) }}
	acquireP50 = quantity{func(r row) float64 { return float64(at(r.Acquire, 0.5)) }, func(s sample) float64 { return float64(s.Acquire) }}
	acquireP99 = quantity{func(r row) float64 { return float64(at(r.Acquire, 0.99)) }, func(s sample) float64 { return float64(s.Acquire99) }}
	clientTime = quantity{func(r row) float64 { return r.ClientCPU }, func(s sample) float64 { return s.ClientCPU }}
	p99        = quantity{func(r row) float64 { return float64(at(r.Both, 0.99)) }, func(s sample) float64 { return float64(s.P99) }}
)

func free(n, g int) string      { return fmt.Sprintf("uncontended/n=%d/goroutines=%d", n, g) }
func ill(f fault, g int) string { return fmt.Sprintf("fault/%s/goroutines=%d", f, g) }

func targets() []target {
	return slices.Concat(freeTargets(), faultTargets(), nameTargets(), herdTargets(), clusterTargets(), rightsTargets(), serviceTargets(), waitingTargets())
}

// part returns how many operations one of our adapters makes, as a part of those of bare pipelining.
func part(workload, ours string) figure { return faster(workload, ours, adapters.Bare) }

func freeTargets() (list []target) {
	for _, u := range []struct {
		what  string
		ours  string
		n, g  int
		least float64
	}{
		{"uncontended, 1 goroutine, as a part of bare pipelining", adapters.Ours, 3, 1, 0.92},
		{"… 8 goroutines", adapters.Ours, 3, 8, 0.88},
		{"… 64 goroutines", adapters.Ours, 3, 64, 1},
		{"… 512 goroutines", adapters.Ours, 3, 512, 1.1},
		{"… 64 goroutines, 5 servers", adapters.Ours, 5, 64, 1.1},
		{"… 512 goroutines, 5 servers", adapters.Ours, 5, 512, 1.1},
		{"… with fencing, 64 goroutines", fenced, 3, 64, 0.65},
		{"… with fencing, 512 goroutines", fenced, 3, 512, 0.65},
		{"… with fencing and guard, 64 goroutines", guarded, 3, 64, 0.5},
		{"… with fencing and guard, 512 goroutines", guarded, 3, 512, 0.5},
	} {
		list = append(list, minimum(u.what, u.least, part(free(u.n, u.g), u.ours), nil))
	}
	w, allocs := free(3, 64), func(r row) float64 { return r.Allocs }
	return append(list,
		minimum("a quorum of three against bsm/redislock's one server, 64 goroutines", 2.3,
			faster(w, adapters.Ours, "bsm/redislock"), faster(w, adapters.Bare, "bsm/redislock")),
		maximum("p99 of acquire and release, 64 goroutines, as a part of bare pipelining's", 1.1,
			compared(w, adapters.Ours, w, adapters.Bare, p99), nil),
		maximum("processor time of the client, 64 goroutines, as a part of bare pipelining's", 1.25,
			compared(w, adapters.Ours, w, adapters.Bare, clientTime), nil),
		maximum("a client is made and acquires its first lock, p50 as a multiple of redsync's", 1.3,
			compared("opening", adapters.Ours, "opening", adapters.Yardstick, acquireP50), nil),
		maximum("allocations of acquire and release", 5, only(w, adapters.Ours, allocs), nil),
		maximum("… with fencing", 9, only(w, fenced, allocs), nil),
	)
}

func faultTargets() (list []target) {
	slowest := map[int]float64{1: 1.15, 64: 1.1}
	for _, f := range []fault{frozen, dead, blackholed} {
		for _, g := range []int{1, 64} {
			w := ill(f, g)
			multiple := func(q quantity) (measured, limit figure) {
				return compared(w, adapters.Ours, w, oursWell, q), compared(w, bareOfTwo, w, bareWell, q)
			}
			half, halfLimit := multiple(p50)
			most, mostLimit := multiple(p99)
			list = append(list,
				maximum(fmt.Sprintf("one of three %s, %s: p50 as a multiple of when all are healthy", f, goroutines(g)), slowest[g], half, halfLimit),
				maximum("… p99", 1.5, most, mostLimit))
		}
	}
	return append(list, minimum("one of three frozen, 64 goroutines, as a part of bare pipelining over the other two", 0.9,
		faster(ill(frozen, 64), adapters.Ours, bareOfTwo), nil))
}

func nameTargets() (list []target) {
	for _, processes := range []int{1, 2} {
		name := fmt.Sprintf("one-name/processes=%d/pause=", processes)
		alone := func(what string, least float64, workload string) target {
			return minimum(what, least, faster(workload, adapters.Ours, bareAlone), nil)
		}
		list = append(list,
			alone("16 goroutines on one name in "+processesOf(processes)+", as a part of one goroutine of bare pipelining alone", 0.95, name+"0s"),
			alone("… 8 ms between turns", 0.95, name+"8ms"),
			maximum("… commands for a lock", 7, only(name+"0s", adapters.Ours, func(r row) float64 { return r.Commands }), nil),
			target{
				what: "… Jain's index", aim: "≥ 0.98", measured: only(name+"0s", adapters.Ours, func(r row) float64 { return r.Jain }),
				met: atLeast(0.98), text: significant,
			})
	}
	return list
}

func longestWait(r row) float64 { return r.Longest.Seconds() }

func herdTargets() (list []target) {
	for _, h := range []struct {
		processes                     int
		rate, commands, jain, longest float64
	}{
		{10, 165, 20, 0.98, 0.25},
		{50, 155, 30, 0.95, 1},
		{150, 145, 50, 0.95, 2.5},
	} {
		w := fmt.Sprintf("herd/processes=%d", h.processes)
		least := func(what string, bound float64, of func(row) float64) target {
			return target{what, fmt.Sprintf("≥ %v", bound), only(w, adapters.Ours, of), atLeast(bound), significant, nil}
		}
		list = append(list,
			least(fmt.Sprintf("%d processes on one name, 5 ms hold: holds a second", h.processes), h.rate, func(r row) float64 { return r.Rate }),
			maximum("… commands for a hold that one server runs", h.commands, only(w, adapters.Ours, herdCommands), nil),
			least("… Jain's index", h.jain, func(r row) float64 { return r.Jain }),
			maximum("… the longest wait in seconds", h.longest, only(w, adapters.Ours, longestWait), nil))
	}
	return append(list,
		target{
			what: "a process 40 ms away beside one that is 1 ms away: holds of each of its goroutines in 15 s", aim: "≥ 60",
			measured: only("herd/far", adapters.Ours, func(r row) float64 { return r.Fewest }), met: atLeast(60), text: significant,
		},
		maximum("… the longest wait in seconds", 1, only("herd/far", adapters.Ours, longestWait), nil),
		maximum("1,000 clients wait for a minute: ms from the release to the next holder", 20, only("herd/crowd", adapters.Ours, func(r row) float64 {
			return float64(at(r.HandoffGap, 0.5)) / 1e6
		}), nil),
		maximum("… attempts that one server saw by then", 50, only("herd/crowd", adapters.Ours, crowdAttempts), nil))
}

// clusterTargets compare three Clusters with as many single masters.
func clusterTargets() []target {
	nine := baselineOf(9)
	drained := func(r row) float64 { return r.Drained.Seconds() }
	return []target{
		minimum("three Clusters, two processes on one name, as a part of nine single masters", 0.67,
			faster("clusters/processes=2", adapters.Ours, nine), nil),
		{
			what: "… Jain's index", aim: "≥ 0.95", measured: only("clusters/processes=2", adapters.Ours, func(r row) float64 { return r.Jain }),
			met: atLeast(0.95), text: significant,
		},
		maximum("three Clusters, 2,000 waiters: the time until all are through, as a multiple of nine single masters'", 1.5, func(rs *results) (value, bool) {
			one, known := only("clusters/waiters", adapters.Ours, drained)(rs)
			of, also := only("clusters/waiters", nine, drained)(rs)
			return value{middle: one.middle / max(of.middle, 1e-9)}, known && also
		}, nil),
	}
}

// rightsTargets are of clients without one of the rights that waiting needs.
func rightsTargets() (list []target) {
	for _, lack := range lacks {
		name := without(lack[0])
		list = append(list,
			minimum("a process alone without "+lack[0]+", as a part of one with all rights", 0.95, faster("rights/processes=1", name, adapters.Ours), nil),
			maximum("… two processes: the longest wait in seconds", 1, only("rights/processes=2", name, longestWait), nil),
			target{
				what: "… Jain's index", aim: "≥ 0.8", measured: only("rights/processes=2", name, func(r row) float64 { return r.Jain }), met: atLeast(0.8), text: significant,
			})
	}
	return list
}

// serviceTargets compare this library with itself.
func serviceTargets() []target {
	metrics := func(g int) figure {
		return faster(fmt.Sprintf("service/metrics/goroutines=%d", g), adapters.Measured, adapters.Ours)
	}
	return []target{
		minimum("with metrics, 1 goroutine, as a part of the same without", 0.8, metrics(1), nil),
		minimum("… 64 goroutines", 0.8, metrics(64), nil),
		maximum("1,000 acquisitions a second beside 10,000 held locks: p99 of an acquisition, as a multiple of that alone", 1.5,
			compared(besideHeld, adapters.Holding, besideHeld, adapters.Ours, acquireP99), nil),
	}
}

// herdCommands returns how many commands one server runs for a hold.
func herdCommands(r row) float64 { return r.CommandsPerSecond / max(r.Rate, 1e-9) / herdServers }

// crowdAttempts returns how many attempts one server saw.
func crowdAttempts(r row) float64 { return r.Attempts / herdServers }

func waitingTargets() []target {
	return []target{
		maximum("wake-up of a waiter of another client, p50 in ms", 1, only("hand-over", adapters.Ours, func(r row) float64 {
			return float64(at(r.HandoffGap, 0.5)) / 1e6
		}), nil),
		maximum("1,000 waiters: commands a second", 20, only("waiters", adapters.Ours, func(r row) float64 { return r.CommandsPerSecond }), nil),
		maximum("… seconds until all are through", 0.2, only("waiters", adapters.Ours, func(r row) float64 { return r.Drained.Seconds() }), nil),
		minimum("1 ms away, 1 goroutine, release not waited for, against redsync", 1.8, faster("distance/goroutines=1", async, adapters.Yardstick), nil),
	}
}

// valueText returns the rounded value. If the value misses the target and the rounded one does not,
// valueText adds as many digits as show that the target is missed.
func (t target) valueText(value float64) string {
	rounded := t.text(value)
	if t.met(value) || !t.met(parsed(rounded)) {
		return rounded
	}
	digits := strings.TrimSuffix(rounded, "x")
	unit := rounded[len(digits):]
	_, decimals, _ := strings.Cut(digits, ".")
	for n := len(decimals) + 1; n <= maxDecimals; n++ {
		if exact := strconv.FormatFloat(value, 'f', n, 64); !t.met(parsed(exact)) {
			return fmt.Sprintf("%s (measured %s%s)", rounded, exact, unit)
		}
	}
	return rounded
}

// maxDecimals bounds the digits that valueText shows after the point.
const maxDecimals = 12

// parsed returns the number in a text of [target.text].
func parsed(text string) float64 {
	v, _ := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	return v
}

// limitText returns the value of bare pipelining.
func (t target) limitText(rs *results) string {
	if t.limit == nil {
		return ""
	}
	v, known := t.limit(rs)
	if !known {
		return ""
	}
	return t.text(v.middle)
}

// spreadText returns the smallest and the largest value of the rounds.
func (t target) spreadText(v value) string {
	if v.low == v.high {
		return ""
	}
	return strings.TrimSuffix(t.text(v.low), "x") + " to " + t.text(v.high)
}

// targetsTable returns the table of targets, measured values and whether the targets are met.
func targetsTable(rs *results) string {
	var text strings.Builder
	text.WriteString("| | target | measured | rounds | | bare pipelining |\n|---|---|---|---|---|---|\n")
	for _, t := range targets() {
		v, known := t.measured(rs)
		if !known {
			fmt.Fprintf(&text, "| %s | %s | not measured | | | |\n", t.what, t.aim)
			continue
		}
		verdict := "**missed**"
		if t.met(v.middle) {
			verdict = "met"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", t.what, t.aim, t.valueText(v.middle), t.spreadText(v), verdict, t.limitText(rs))
	}
	return text.String()
}
