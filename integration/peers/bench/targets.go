//go:build unix

package main

import (
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/integration/peers/contest"
)

// A target is what this library set out to reach.
type target struct {
	what, aim string
	measured  func(b *book) (value float64, known bool)
	met       func(value float64) bool
	text      func(value float64) string
	limit     func(b *book) (value float64, known bool) // what bare pipelining makes in its place; may be nil
}

func atLeast(least float64) func(float64) bool { return func(v float64) bool { return v >= least } }
func atMost(most float64) func(float64) bool   { return func(v float64) bool { return v <= most } }
func inTimes(v float64) string                 { return significant(v) + "x" }

var fenced, guarded, async = contest.Ours + ", fencing", contest.Ours + ", fencing and guard", contest.Ours + ", async release"

// faster is how many times as many operations one contestant does as another.
func faster(workload, one, other string) func(*book) (float64, bool) {
	return compared(workload, one, workload, other, func(r row) float64 { return r.Rate })
}

// compared is a figure of one row as a multiple of another row's.
func compared(workload, kind, otherWorkload, otherKind string, of func(row) float64) func(*book) (float64, bool) {
	return func(b *book) (float64, bool) {
		one, ok := b.row(workload, kind)
		other, also := b.row(otherWorkload, otherKind)
		if !ok || !also || of(other) == 0 {
			return 0, false
		}
		return of(one) / of(other), true
	}
}

func figure(workload, kind string, of func(row) float64) func(*book) (float64, bool) {
	return func(b *book) (float64, bool) {
		r, ok := b.row(workload, kind)
		return of(r), ok && !r.Missing
	}
}

func p50(r row) float64 { return float64(at(r.Both, 0.5)) }
func p99(r row) float64 { return float64(at(r.Both, 0.99)) }

func free(n, g int) string { return fmt.Sprintf("uncontended/n=%d/goroutines=%d", n, g) }

func targets() (list []target) {
	ratio := func(what string, least float64, measured func(*book) (float64, bool)) {
		list = append(list, target{what: what, aim: fmt.Sprintf("≥ %vx", least), measured: measured, met: atLeast(least), text: inTimes})
	}
	bound := func(what string, most float64, measured func(*book) (float64, bool)) {
		list = append(list, target{what: what, aim: fmt.Sprintf("≤ %v", most), measured: measured, met: atMost(most), text: significant})
	}
	limited := func(limit func(*book) (float64, bool)) { list[len(list)-1].limit = limit }
	rate := func(r row) float64 { return r.Rate }
	for _, u := range []struct {
		what  string
		n, g  int
		least float64
	}{
		{"uncontended, 1 goroutine, against redsync", 3, 1, 1.6},
		{"… 64 goroutines", 3, 64, 7},
		{"… 512 goroutines", 3, 512, 9},
		{"… 64 goroutines, 5 servers", 5, 64, 9},
		{"… 512 goroutines, 5 servers", 5, 512, 12},
	} {
		ratio(u.what, u.least, faster(free(u.n, u.g), contest.Ours, contest.Yardstick))
		limited(faster(free(u.n, u.g), contest.Bare, contest.Yardstick))
	}
	ratio("a quorum of three against bsm/redislock's one server, 64 goroutines", 2.5, faster(free(3, 64), contest.Ours, "bsm/redislock"))
	limited(faster(free(3, 64), contest.Bare, "bsm/redislock"))
	bound("p99 of acquire and release, 64 goroutines, as a part of redsync's", 0.167,
		compared(free(3, 64), contest.Ours, free(3, 64), contest.Yardstick, p99))
	limited(compared(free(3, 64), contest.Bare, free(3, 64), contest.Yardstick, p99))
	bound("allocations of acquire and release", 8, figure(free(3, 64), contest.Ours, func(r row) float64 { return r.Allocs }))
	bound("… with fencing", 12, figure(free(3, 64), fenced, func(r row) float64 { return r.Allocs }))
	ratio("with fencing, of the plain rate, 64 goroutines", 0.6, faster(free(3, 64), fenced, contest.Ours))
	ratio("with fencing and guard", 0.5, faster(free(3, 64), guarded, contest.Ours))
	for _, f := range []fault{frozen, dead, hole} {
		for _, g := range []int{1, 64} {
			ill, all := fmt.Sprintf("fault/%s/goroutines=%d", f, g), fmt.Sprintf("fault/all-well/goroutines=%d", g)
			bound(fmt.Sprintf("one of three %s, %s: p50 as a multiple of when all are well", f, goroutines(g)), 1.2,
				compared(ill, contest.Ours, all, contest.Ours, p50))
			limited(compared(free(2, g), contest.Bare, free(3, g), contest.Bare, p50))
			bound("… p99", 1.5, compared(ill, contest.Ours, all, contest.Ours, p99))
			limited(compared(free(2, g), contest.Bare, free(3, g), contest.Bare, p99))
		}
	}
	const one = "fault/frozen/goroutines=64"
	ratio("one of three frozen, 64 goroutines, against redsync", 1000, faster(one, contest.Ours, contest.Yardstick))
	limited(compared(free(2, 64), contest.Bare, one, contest.Yardstick, rate))
	ratio("… against redsync that fails fast", 8, faster(one, contest.Ours, "redsync, redigo, fail fast"))
	limited(compared(free(2, 64), contest.Bare, one, "redsync, redigo, fail fast", rate))
	for _, processes := range []int{1, 2} {
		name := fmt.Sprintf("one-name/processes=%d/pause=", processes)
		ratio("16 goroutines on one name in "+processesOf(processes)+", against redsync", 1.15, faster(name+"0s", contest.Ours, contest.Yardstick))
		limited(compared(alone, contest.Bare, name+"0s", contest.Yardstick, rate))
		ratio("… 8 ms between turns", 3, faster(name+"8ms", contest.Ours, contest.Yardstick))
		limited(compared(alone, contest.Bare, name+"8ms", contest.Yardstick, rate))
		bound("… commands for a lock", 7, figure(name+"0s", contest.Ours, func(r row) float64 { return r.Commands }))
		list = append(list, target{
			what: "… Jain's index", aim: "≥ 0.98", measured: figure(name+"0s", contest.Ours, func(r row) float64 { return r.Jain }),
			met: atLeast(0.98), text: significant,
		})
	}
	bound("hand-over to a waiter of another client, p50 in ms", 1, figure("hand-over", contest.Ours, func(r row) float64 {
		return float64(at(r.Gap, 0.5)) / 1e6
	}))
	bound("1,000 waiters: commands a second", 20, figure("waiters", contest.Ours, func(r row) float64 { return r.CommandsPerSecond }))
	bound("… seconds until all are through", 0.2, figure("waiters", contest.Ours, func(r row) float64 { return r.Drained.Seconds() }))
	ratio("1 ms away, 1 goroutine, release not waited for, against redsync", 1.8, faster("distance/goroutines=1", async, contest.Yardstick))
	return list
}

// limitText is what bare pipelining makes in its place.
func (t target) limitText(b *book) string {
	if t.limit == nil {
		return ""
	}
	value, known := t.limit(b)
	if !known {
		return ""
	}
	return t.text(value)
}

// targetsTable shows what was aimed at, what was measured, and says so where it was missed.
func targetsTable(b *book) string {
	var text strings.Builder
	text.WriteString("| | target | measured | | bare pipelining |\n|---|---|---|---|---|\n")
	for _, t := range targets() {
		value, known := t.measured(b)
		if !known {
			fmt.Fprintf(&text, "| %s | %s | not measured | | |\n", t.what, t.aim)
			continue
		}
		verdict := "**missed**"
		if t.met(value) {
			verdict = "met"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", t.what, t.aim, t.text(value), verdict, t.limitText(b))
	}
	return text.String()
}
