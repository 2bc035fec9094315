//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/contest"
	"github.com/quorumlock/go-redlock/integration/peers/load"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

func TestWorkloadsHaveNamesOfTheirOwnAndContestantsThatExist(t *testing.T) {
	names := make(map[string]bool)
	for _, w := range workloads() {
		assert.False(t, names[w.name], w.name)
		names[w.name] = true
		require.NotEmpty(t, w.kinds, w.name)
		for _, k := range w.kinds {
			_, err := contest.Find(k)
			require.NoError(t, err)
		}
		assert.Contains(t, w.kinds, contest.Ours, w.name)
		assert.Contains(t, w.kinds, contest.Yardstick, w.name)
		assert.Positive(t, w.rounds, w.name)
	}
}

func TestARowCountsByOperation(t *testing.T) {
	both := stats.Distribution{}
	both.Add(2 * time.Millisecond)
	r := rowOf("x", load.Result{
		Ops: 100, Failed: 25, Elapsed: 2 * time.Second, Both: both, Shares: []int{50, 50},
		Cost: load.Usage{ClientCPU: time.Millisecond, Commands: 600, Mallocs: 700, AllCommands: 1000},
	})
	assert.InDelta(t, 50, r.Rate, 1e-9)
	assert.InDelta(t, 0.2, r.Failed, 1e-9)
	assert.InDelta(t, 10, r.ClientCPU, 1e-9, "µs")
	assert.InDelta(t, 6, r.Commands, 1e-9)
	assert.InDelta(t, 7, r.Allocs, 1e-9)
	assert.InDelta(t, 500, r.CommandsPerSecond, 1e-9)
	assert.InDelta(t, 1, r.Jain, 1e-9)
	assert.InEpsilon(t, 2*time.Millisecond, at(r.Both, 0.5), 0.01)
	assert.Zero(t, at(r.Acquire, 0.5))
}

func TestEveryFigureOfARowIsTheMedianOfItsRounds(t *testing.T) {
	var rounds []row
	for _, n := range []float64{30, 10, 20} {
		one := rowOf("x", load.Result{})
		one.Rate, one.Allocs, one.Drained = n, 100-n, time.Duration(n)
		one.Both = slices.Repeat([]time.Duration{time.Duration(n)}, len(curve))
		rounds = append(rounds, one)
	}
	m := median(rounds)
	assert.InDelta(t, 20, m.Rate, 1e-9)
	assert.InDelta(t, 80, m.Allocs, 1e-9)
	assert.Equal(t, time.Duration(20), m.Drained)
	assert.Equal(t, time.Duration(20), at(m.Both, 0.99))
}

func TestAPartOfThePageIsReplacedAndTheRestIsLeft(t *testing.T) {
	page := "before\n<!-- bench: x -->\nold\n<!-- /bench: x -->\nafter\n"
	page, err := fill(page, "x", "new\n")
	require.NoError(t, err)
	assert.Equal(t, "before\n<!-- bench: x -->\nnew\n<!-- /bench: x -->\nafter\n", page)
	_, err = fill(page, "y", "new\n")
	require.Error(t, err, "there is no place for it")
}

func TestNumbersAreWrittenInThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 7: "7", 7.04: "7.04", 12.34: "12.3", 12: "12", 123.4: "123", 1234: "1,234", 1234567: "1,234,567"} {
		assert.Equal(t, want, number(v))
	}
	assert.Equal(t, "1.5 ms", short(1500*time.Microsecond))
	assert.Equal(t, "250 µs", short(250*time.Microsecond))
	assert.Equal(t, "2 s", short(2*time.Second))
}

func TestTargetsAreLookedUpInTheTables(t *testing.T) {
	b := &book{Tables: map[string]table{"uncontended/n=3/goroutines=64": {Rows: []row{
		{Kind: contest.Ours, Rate: 800}, {Kind: contest.Yardstick, Rate: 100}, {Kind: contest.Bare, Rate: 900},
	}}}}
	text := targetsTable(b)
	assert.Contains(t, text, "| … 64 goroutines | ≥ 7x | 8x | met | 9x |")
	assert.Contains(t, text, "not measured")

	names := make(map[string]bool)
	for _, w := range workloads() {
		names[w.name] = true
	}
	all := &book{Tables: make(map[string]table)}
	for name := range names {
		rows := make([]row, 0, len(contest.Kinds()))
		for _, k := range contest.Kinds() {
			full := slices.Repeat([]time.Duration{time.Millisecond}, len(curve))
			rows = append(rows, row{Kind: k.Name, Rate: 1, Both: full, Acquire: full, Gap: full})
		}
		all.Tables[name] = table{Rows: rows}
	}
	assert.NotContains(t, targetsTable(all), "not measured", "a target that no workload can answer")
}

func TestTheCommandLineChoosesWorkloads(t *testing.T) {
	o, err := parse([]string{"--quick", "--only", "fault/frozen, hand-over", "--contestants", "go-redlock;redsync, redigo"})
	require.NoError(t, err)
	var chosen []string
	for _, w := range o.choose(workloads()) {
		chosen = append(chosen, w.name)
		assert.Equal(t, 1, w.rounds)
	}
	assert.Equal(t, "fault/frozen/goroutines=1 fault/frozen/goroutines=64 hand-over", strings.Join(chosen, " "))

	o, err = parse([]string{"--nodes", "a:1,b:1,c:1"})
	require.NoError(t, err)
	for _, w := range o.choose(workloads()) {
		assert.Equal(t, healthy, w.fault)
		assert.LessOrEqual(t, w.servers, 3)
	}
	_, err = parse([]string{"surplus"})
	require.Error(t, err)
}

func TestGapsAreFromAReleaseToTheNextHolderOfThatName(t *testing.T) {
	gaps := load.Gaps([]load.Turn{
		{Name: 1, Acquired: 0, Released: 1e6},
		{Name: 0, Acquired: 0, Released: 10e6},
		{Name: 0, Acquired: 12e6, Released: 20e6},
		{Name: 1, Acquired: 2e6, Released: 3e6},
	})
	assert.Equal(t, 2, gaps.Count())
	assert.InEpsilon(t, time.Millisecond, gaps.Quantile(0), 0.01)
	assert.InEpsilon(t, 2*time.Millisecond, gaps.Quantile(1), 0.01)
}
