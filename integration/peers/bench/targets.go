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

func targets() (list []target) {
	ratio := func(what string, least float64, measured func(*book) (float64, bool)) {
		list = append(list, target{what, fmt.Sprintf("≥ %vx", least), measured, atLeast(least), inTimes})
	}
	bound := func(what string, most float64, measured func(*book) (float64, bool)) {
		list = append(list, target{what, fmt.Sprintf("≤ %v", most), measured, atMost(most), significant})
	}
	free := func(n, g int) string { return fmt.Sprintf("uncontended/n=%d/goroutines=%d", n, g) }
	ratio("uncontended, 1 goroutine, against redsync", 1.6, faster(free(3, 1), contest.Ours, contest.Yardstick))
	ratio("… 64 goroutines", 7, faster(free(3, 64), contest.Ours, contest.Yardstick))
	ratio("… 512 goroutines", 9, faster(free(3, 512), contest.Ours, contest.Yardstick))
	ratio("… 64 goroutines, 5 servers", 9, faster(free(5, 64), contest.Ours, contest.Yardstick))
	ratio("… 512 goroutines, 5 servers", 12, faster(free(5, 512), contest.Ours, contest.Yardstick))
	ratio("a quorum of three against bsm/redislock's one server, 64 goroutines", 2.5, faster(free(3, 64), contest.Ours, "bsm/redislock"))
	bound("p99 of acquire and release, 64 goroutines, as a part of redsync's", 0.167,
		compared(free(3, 64), contest.Ours, free(3, 64), contest.Yardstick, p99))
	bound("allocations of acquire and release", 8, figure(free(3, 64), contest.Ours, func(r row) float64 { return r.Allocs }))
	bound("… with fencing", 12, figure(free(3, 64), fenced, func(r row) float64 { return r.Allocs }))
	ratio("with fencing, of the plain rate, 64 goroutines", 0.6, faster(free(3, 64), fenced, contest.Ours))
	ratio("with fencing and guard", 0.5, faster(free(3, 64), guarded, contest.Ours))
	for _, f := range []fault{frozen, dead, hole} {
		for _, g := range []int{1, 64} {
			ill, all := fmt.Sprintf("fault/%s/goroutines=%d", f, g), fmt.Sprintf("fault/all-well/goroutines=%d", g)
			bound(fmt.Sprintf("one of three %s, %s: p50 as a multiple of when all are well", f, goroutines(g)), 1.2,
				compared(ill, contest.Ours, all, contest.Ours, p50))
			bound("… p99", 1.5, compared(ill, contest.Ours, all, contest.Ours, p99))
		}
	}
	ratio("one of three frozen, 64 goroutines, against redsync", 1000, faster("fault/frozen/goroutines=64", contest.Ours, contest.Yardstick))
	ratio("… against redsync that fails fast", 8, faster("fault/frozen/goroutines=64", contest.Ours, "redsync, redigo, fail fast"))
	for _, processes := range []int{1, 2} {
		name := fmt.Sprintf("one-name/processes=%d/pause=", processes)
		ratio("16 goroutines on one name in "+processesOf(processes)+", against redsync", 1.15, faster(name+"0s", contest.Ours, contest.Yardstick))
		ratio("… 8 ms between turns", 3, faster(name+"8ms", contest.Ours, contest.Yardstick))
		bound("… commands for a lock", 7, figure(name+"0s", contest.Ours, func(r row) float64 { return r.Commands }))
		list = append(list, target{
			"… Jain's index", "≥ 0.98", figure(name+"0s", contest.Ours, func(r row) float64 { return r.Jain }), atLeast(0.98), significant,
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

// targetsTable shows what was aimed at, what was measured, and says so where it was missed.
func targetsTable(b *book) string {
	var text strings.Builder
	text.WriteString("| | target | measured | |\n|---|---|---|---|\n")
	for _, t := range targets() {
		value, known := t.measured(b)
		if !known {
			fmt.Fprintf(&text, "| %s | %s | not measured | |\n", t.what, t.aim)
			continue
		}
		verdict := "**missed**"
		if t.met(value) {
			verdict = "met"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", t.what, t.aim, t.text(value), verdict)
	}
	return text.String()
}
