//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/load"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

func TestWorkloadsHaveUniqueNamesAndExistingAdapters(t *testing.T) {
	names := make(map[string]bool)
	for _, w := range workloads() {
		assert.False(t, names[w.name], w.name)
		names[w.name] = true
		require.NotEmpty(t, w.kinds, w.name)
		rows := make(map[string]bool)
		for _, turn := range w.turns() {
			_, err := adapters.Find(turn.kind)
			require.NoError(t, err)
			assert.False(t, rows[turn.row], "%s: %s", w.name, turn.row)
			rows[turn.row] = true
		}
		assert.Contains(t, w.kinds, adapters.Ours, w.name)
		if w.masters == 0 && w.section() != rightsSection && w.section() != "service" { // no other library has Clusters as nodes, needs these rights, or has these metrics
			assert.Contains(t, w.kinds, adapters.Yardstick, w.name)
		}
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
	require.Error(t, err, "the page has no place for it")
}

func TestNumbersAreWrittenInThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 7: "7", 7.04: "7.04", 12.34: "12.3", 12: "12", 123.4: "123", 1234: "1,234", 1234567: "1,234,567"} {
		assert.Equal(t, want, number(v))
	}
	assert.Equal(t, "1.5 ms", short(1500*time.Microsecond))
	assert.Equal(t, "250 µs", short(250*time.Microsecond))
	assert.Equal(t, "2 s", short(2*time.Second))
}

func TestATableHasTheColumnsOfItsResults(t *testing.T) {
	full := slices.Repeat([]time.Duration{time.Millisecond}, len(curve))
	r := row{Kind: "x", Rate: 100, HandoffGap: full, Acquire: full, ClientCPU: 40, ServerCPU: 30, Bytes: 2345, Allocs: 6}
	eightNames, handoff, waiters := named(t, "eight-names"), named(t, "hand-over"), named(t, "waiters")
	text := func(w workload) string { return plainTable(w, table{Rows: []row{r}}) }

	assert.NotContains(t, text(eightNames), "acquire + release", "older results do not have it")
	assert.Contains(t, text(eightNames), "2,345")
	r.Both = full
	assert.Contains(t, text(eightNames), "acquire + release")
	for _, head := range []string{"client CPU µs", "server CPU µs", "allocs", "bytes"} {
		assert.Contains(t, text(handoff), head)
	}
	assert.Regexp(t, `client CPU ms/s +server CPU ms/s(.|\n)* 4 +3 `, text(waiters), "the CPU of all waiters in each second")

	uncontended := named(t, "uncontended/n=3/goroutines=1")
	assert.NotContains(t, text(uncontended), "0, 0", "system calls that were not counted")
	r.ClientCalls = 17
	assert.Contains(t, text(uncontended), "17, –")
}

func TestTargetsAreLookedUpInTheTables(t *testing.T) {
	rs := &results{Tables: map[string]table{"uncontended/n=3/goroutines=64": {Rows: []row{
		{Kind: adapters.Ours, Rate: 800}, {Kind: "bsm/redislock", Rate: 100}, {Kind: adapters.Bare, Rate: 900},
	}}}}
	text := targetsTable(rs)
	assert.Contains(t, text, "| … 64 goroutines | ≥ 1x | 0.89x |  | **missed** |  |")
	assert.Contains(t, text, "one server, 64 goroutines | ≥ 2.3x | 8x |  | met | 9x |")
	assert.Contains(t, text, "not measured")

	all := &results{Tables: make(map[string]table)}
	for _, w := range workloads() {
		var rows []row
		for _, turn := range w.turns() {
			full := slices.Repeat([]time.Duration{time.Millisecond}, len(curve))
			rows = append(rows, row{Kind: turn.row, Rate: 1, Both: full, Acquire: full, HandoffGap: full, ClientCPU: 1})
		}
		all.Tables[w.name] = table{Rows: rows}
	}
	assert.NotContains(t, targetsTable(all), "not measured", "no workload measures one of the targets")
	for _, target := range targets() {
		if target.limit != nil {
			assert.NotEmpty(t, target.limitText(all), target.what)
		}
	}
}

func TestTargetsAreComparedRoundByRound(t *testing.T) {
	rs := &results{Tables: map[string]table{"uncontended/n=3/goroutines=64": {Rows: []row{
		{Kind: adapters.Ours, Rate: 1, Rounds: []sample{{Rate: 100}, {Rate: 90}, {}, {Rate: 150}}},
		{Kind: adapters.Bare, Rate: 1, Rounds: []sample{{Rate: 100}, {Rate: 100}, {Rate: 7}, {Rate: 100}}},
		{Kind: "bsm/redislock", Rate: 1, Rounds: []sample{{}, {}, {}, {Rate: 50}}},
	}}}}
	text := targetsTable(rs)
	assert.Contains(t, text, "| … 64 goroutines | ≥ 1x | 1x | 0.9 to 1.5x | met |")
	assert.Contains(t, text, "one server, 64 goroutines | ≥ 2.3x | not measured |", "one round of four is not enough")
	rows := plainTable(named(t, "uncontended/n=3/goroutines=64"), rs.Tables["uncontended/n=3/goroutines=64"])
	assert.Contains(t, rows, "(90 to 150)")
}

func TestAMissedTargetShowsTheDigitsThatMissIt(t *testing.T) {
	below, above := minimum("", 1.15, nil, nil), maximum("", 1.2, nil, nil)
	part, large := maximum("", 0.167, nil, nil), minimum("", 1000, nil, nil)
	for _, c := range []struct {
		target target
		value  float64
		want   string
	}{
		{below, 1.147, "1.15x (measured 1.147x)"},
		{below, 1.1499, "1.15x (measured 1.1499x)"},
		{below, 1.14, "1.14x"},
		{below, 1.15, "1.15x"},
		{below, 1.154, "1.15x"},
		{above, 1.204, "1.2 (measured 1.204)"},
		{above, 1.2004, "1.2 (measured 1.2004)"},
		{above, 1.21, "1.21"},
		{above, 1.196, "1.2"},
		{part, 0.1672, "0.17"}, // 0.17 is above 0.167
		{large, 999.7, "1000x (measured 999.7x)"},
	} {
		assert.Equal(t, c.want, c.target.valueText(c.value), "%v %v", c.target.aim, c.value)
	}

	rs := &results{Tables: map[string]table{"uncontended/n=3/goroutines=64": {Rows: []row{
		{Kind: adapters.Ours, Rate: 99.98}, {Kind: adapters.Bare, Rate: 100},
	}}}}
	assert.Contains(t, targetsTable(rs), "| … 64 goroutines | ≥ 1x | 1x (measured 0.9998x) |  | **missed** |")
}

// The targets are parts of what bare pipelining makes in the same run. So its program must not change:
// whoever changes it measures everything again, and then changes this sum.
func TestBarePipeliningIsFrozen(t *testing.T) {
	text, err := os.ReadFile("../adapters/pipe.go")
	require.NoError(t, err)
	require.Equal(t, "70a237ddda054387eebb5b04c87db25d259f06c96939ef8548dbd295f0278352", fmt.Sprintf("%x", sha256.Sum256(text)))
}

// The load of a shared machine changes within minutes.
func TestBaselinesAreMeasuredInTheSameTurns(t *testing.T) {
	var measured []string
	measure := func(_ context.Context, w workload, kind string, _ []string) (load.Result, error) {
		measured = append(measured, fmt.Sprint(kind, "; ", w.fault, "; ", w.servers))
		return load.Result{Ops: len(measured), Elapsed: time.Second}, nil
	}
	o, err := parse([]string{"--rounds", "1", "--only", ill(frozen, 64), "--adapters", "go-redlock;bare pipelining"})
	require.NoError(t, err)
	rs := &results{Tables: make(map[string]table)}
	for _, w := range o.choose(workloads()) {
		rs.Tables[w.name], err = o.compare(t.Context(), w, measure, log.New(io.Discard, "", 0))
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"go-redlock; frozen; 3", "go-redlock; ; 3", "bare pipelining, redigo; ; 3", "bare pipelining, redigo; ; 2"}, measured)
	value, known := compared(ill(frozen, 64), adapters.Ours, ill(frozen, 64), oursWell, rates)(rs)
	assert.True(t, known)
	assert.InDelta(t, 0.5, value.middle, 0)

	rows := rs.Tables[ill(frozen, 64)].Rows
	rows[slices.IndexFunc(rows, func(r row) bool { return r.Kind == adapters.Ours })].Missing = true
	_, known = compared(ill(frozen, 64), adapters.Ours, ill(frozen, 64), oursWell, rates)(rs)
	assert.False(t, known, "an adapter without a result has not met a maximum")

	turns := named(t, ill(frozen, 64)).turns()
	assert.Equal(t, []string{adapters.Ours, oursWell, bareWell}, []string{turns[0].row, turns[1].row, turns[2].row})
	o, err = parse([]string{"--only", "one-name", "--adapters", "bare pipelining"})
	require.NoError(t, err)
	assert.Len(t, o.choose(workloads()), 4, "baselines alone")
}

func TestTheCommandLineChoosesWorkloads(t *testing.T) {
	o, err := parse([]string{"--quick", "--only", "fault/frozen, hand-over", "--adapters", "go-redlock;redsync, redigo"})
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

func TestAnImpossibleRequestSaysWhy(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel() // a run that is not rejected is interrupted before it starts a server
	unmarked := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(unmarked, pageName), []byte("# Benchmarks\n"), 0o644))
	for _, c := range []struct{ args, says string }{
		{"--adapters redsync --out ../../docs", "use it with --out ''"},
		{"--quick --out ../../docs", "use it with --out ''"},
		{"--only hand-over --out " + unmarked, "has no place for"},
		{"--adapters bsm/redislokc", "bsm/redislock; "},
		{"--adapters go-redlock,redsync", "semicolons between"},
		{"--only fault;hand-over", "commas between"},
		{"--only fault,nothing", `begins with "nothing"`},
		{"--rounds -1", "below 0"},
		{"--nodes a:1", "need 3 servers or more, and --nodes has 1"},
		{"--nodes a:1,b:1,c:1 --only uncontended/n=5", "need 5 servers"},
		{"--nodes a:1,b:1,c:1 --only fault/dead", "harm servers"},
		{"--adapters bsm --only fault", "takes part"},
		{"--only hand-over --out " + t.TempDir(), "benchmarks.md"},
	} {
		err := run(over, strings.Fields(c.args))
		require.ErrorContains(t, err, c.says, c.args)
	}
	_, err := parse([]string{"--out", "../../docs", "--adapters", "redsync", "--out", ""})
	require.NoError(t, err, "make bench does so")
}

func TestAPlotWithoutPointsIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.svg")
	both := func(r row) []time.Duration { return r.Both }
	require.NoError(t, drawDistribution(path, "title", "axis", table{Rows: []row{{Kind: "x", Missing: true}}}, both))
	require.NoFileExists(t, path)
	full := slices.Repeat([]time.Duration{time.Millisecond, 2 * time.Millisecond}, len(curve))[:len(curve)]
	require.NoError(t, drawDistribution(path, "title", "axis", table{Rows: []row{{Kind: "x", Both: full}}}, both))
	require.FileExists(t, path)
}

func TestDataThatThePageDoesNotShowAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, pageName), []byte("no place for anything"), 0o600))
	rs := &results{Tables: map[string]table{"hand-over": {}}}
	require.ErrorContains(t, rs.write(dir), "no place")
	assert.NoFileExists(t, filepath.Join(dir, dataName))
}

func TestGapsAreFromAReleaseToTheNextHolderOfThatName(t *testing.T) {
	gaps := load.HandoffGaps([]load.Turn{
		{Name: 1, Acquired: 0, Released: 1e6},
		{Name: 0, Acquired: 0, Released: 10e6},
		{Name: 0, Acquired: 12e6, Released: 20e6},
		{Name: 1, Acquired: 2e6, Released: 3e6},
	})
	assert.Equal(t, 2, gaps.Count())
	assert.InEpsilon(t, time.Millisecond, gaps.Quantile(0), 0.01)
	assert.InEpsilon(t, 2*time.Millisecond, gaps.Quantile(1), 0.01)
}

// folder returns a folder with a page that has a place for every table, and without results.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var page strings.Builder
	places := map[string]bool{"machine": true, "targets": true}
	for _, w := range workloads() {
		places[w.section()] = true
	}
	for name := range places {
		page.WriteString("<!-- bench: " + name + " -->\n<!-- /bench: " + name + " -->\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, pageName), []byte(page.String()), 0o600))
	return dir
}

// named returns the workload with that name.
func named(t *testing.T, name string) workload {
	t.Helper()
	all := workloads()
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

func TestAnInterruptedMeasurementIsNotRecorded(t *testing.T) {
	signal := errors.New("the signal")
	for what, answer := range map[string]error{"after the answer": nil, "before it": errors.New("no result: EOF")} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			dir := folder(t)
			err := options{out: dir}.measureAll(ctx, []workload{named(t, "hand-over")},
				func(context.Context, workload, string, []string) (load.Result, error) {
					cancel(signal)
					return load.Result{}, answer
				})
			require.ErrorIs(t, err, signal)
			require.ErrorContains(t, err, "interrupted")
			assert.NotContains(t, err.Error(), "no result", "an error after an interruption is its consequence")
			assert.NoFileExists(t, filepath.Join(dir, dataName))
		})
	}
}

// page returns the text of the page in the folder.
func page(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, pageName))
	require.NoError(t, err)
	return string(text)
}

func TestATableKeepsTheMachineAndTheDayOfItsMeasurement(t *testing.T) {
	dir := folder(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, filepath.Dir(dataName)), 0o700))
	const old = `{"Machine":{"CPU":"Old","System":"Linux","Go":"1.25","Redis":"7","Day":"2026-01-02","Cores":4},
		"Tables":{"hand-over":{"Title":"old one"},"waiters":{"Title":"old two"}}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, dataName), []byte(old), 0o600))

	const line = "Old, 4 cores, which clients and servers share; Linux; Redis 7; Go 1.25; 2026-01-02.\n"
	for range 2 { // the second time with data in which each table has a machine
		require.NoError(t, run(t.Context(), []string{"--draw", "--out", dir}))
		assert.Contains(t, page(t, dir), line)
		assert.NotContains(t, page(t, dir), "measured on")
	}

	idle := func(context.Context, workload, string, []string) (load.Result, error) { return load.Result{}, nil }
	require.NoError(t, options{out: dir}.measureAll(t.Context(), []workload{named(t, "eight-names")}, idle))
	require.NoError(t, run(t.Context(), []string{"--draw", "--out", dir}))
	text := page(t, dir)
	assert.Contains(t, text, line, "the machine of most tables")
	assert.Equal(t, 1, strings.Count(text, "measured on"))
	assert.Contains(t, text, "; measured on "+thisMachine(false).words()+")")
}

func TestATitleNamesOnlyWhatIsUnusual(t *testing.T) {
	usual := machine{CPU: "x", Day: "2026-01-02"}
	assert.Empty(t, usual.unlike(usual))
	assert.Equal(t, "; measured on 2026-01-03", machine{CPU: "x", Day: "2026-01-03"}.unlike(usual))
	assert.Equal(t, "; measured on 2026-01-02, at commit abc", machine{CPU: "x", Day: "2026-01-02", Commit: "abc"}.unlike(usual))
	assert.Contains(t, machine{CPU: "x", Day: "2026-01-02", Given: true}.unlike(usual), "given by --nodes")
	assert.NotContains(t, machine{Given: true}.String(), "share")
}
