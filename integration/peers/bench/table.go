//go:build unix

package main

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/load"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A table has the results of one workload.
type table struct {
	Title   string
	Rounds  int
	Seconds float64 // of each measurement
	Machine machine // also the day
	Rows    []row
}

// A row has the results of one adapter: the medians of all rounds.
type row struct {
	Kind    string
	Rounds  []sample `json:",omitempty"` // what the targets compare, by round
	Missing bool     // the adapter failed to start, or did not end
	Rate    float64  // operations per second
	Failed  float64  // as a part of all operations

	Acquire, Both []time.Duration // by [curve]
	HandoffGap    []time.Duration `json:"Gap"` // by [curve]; the key is that of older results

	ClientCPU, ServerCPU     float64 // µs per operation
	ClientCalls, ServerCalls float64 // read and write system calls per operation
	Allocs, Bytes, Commands  float64 // per operation
	CommandsPerSecond        float64 // that the servers ran
	Jain, Fewest             float64 // of the goroutines' operations
	Attempts                 float64 `json:",omitempty"` // SET commands on all servers, in a crowd
	Drained, Longest         time.Duration
}

// A sample has the results of one round that the targets compare. The zero value is that of a round
// without a result.
type sample struct {
	Rate      float64
	Acquire   time.Duration // p50
	Acquire99 time.Duration `json:",omitempty"`
	P50, P99  time.Duration // of acquire and release
	ClientCPU float64       `json:",omitempty"` // µs per operation
}

// curve are the quantiles that are stored: those of the tables, and as many as a plot needs.
var curve = func() []float64 {
	qs := []float64{0.001, 0.01}
	for q := 2; q <= 98; q += 2 {
		qs = append(qs, float64(q)/100)
	}
	return append(qs, 0.99, 0.995, 0.999, 0.9999)
}()

// at returns the quantile q of a curve.
func at(values []time.Duration, q float64) time.Duration {
	i, found := slices.BinarySearch(curve, q)
	if !found || i >= len(values) {
		return 0
	}
	return values[i]
}

// rowOf returns the row of one measurement.
func rowOf(kind string, r load.Result) row {
	ops := float64(max(1, r.Ops))
	seconds := max(r.Elapsed.Seconds(), 1e-9)
	perOp := func(n int64) float64 { return float64(n) / ops }
	return row{
		Kind: kind, Rate: float64(r.Ops) / seconds, Failed: float64(r.Failed) / float64(max(1, r.Ops+r.Failed)),
		Acquire: r.Acquire.Quantiles(curve), Both: r.Both.Quantiles(curve), HandoffGap: r.HandoffGaps.Quantiles(curve),
		ClientCPU: perOp(r.Cost.ClientCPU.Microseconds()), ServerCPU: perOp(r.Cost.ServerCPU.Microseconds()),
		ClientCalls: perOp(r.Cost.ClientCalls), ServerCalls: perOp(r.Cost.ServerCalls),
		Allocs: perOp(r.Cost.Mallocs), Bytes: perOp(r.Cost.Bytes), Commands: perOp(r.Cost.Commands),
		CommandsPerSecond: float64(r.Cost.AllCommands) / seconds,
		Attempts:          perOp(r.Cost.Sets),
		Jain:              stats.Jain(r.Shares), Fewest: fewest(r.Shares), Drained: r.Drained, Longest: r.Longest,
	}
}

func fewest(shares []int) float64 {
	if len(shares) == 0 {
		return 0
	}
	return float64(slices.Min(shares))
}

// median returns a row in which each figure is the median of that figure in the rounds.
func median(rounds []row) row {
	number := func(of func(row) float64) float64 { return stats.Median(each(rounds, of), stats.Mean[float64]) }
	times := func(of func(row) []time.Duration) []time.Duration {
		middle := make([]time.Duration, len(curve))
		for i := range middle {
			middle[i] = stats.Median(each(rounds, func(r row) time.Duration { return of(r)[i] }), stats.Mean[time.Duration])
		}
		return middle
	}
	return row{
		Kind:       rounds[0].Kind,
		Rate:       number(func(r row) float64 { return r.Rate }),
		Failed:     number(func(r row) float64 { return r.Failed }),
		Acquire:    times(func(r row) []time.Duration { return r.Acquire }),
		Both:       times(func(r row) []time.Duration { return r.Both }),
		HandoffGap: times(func(r row) []time.Duration { return r.HandoffGap }),

		ClientCPU:         number(func(r row) float64 { return r.ClientCPU }),
		ServerCPU:         number(func(r row) float64 { return r.ServerCPU }),
		ClientCalls:       number(func(r row) float64 { return r.ClientCalls }),
		ServerCalls:       number(func(r row) float64 { return r.ServerCalls }),
		Allocs:            number(func(r row) float64 { return r.Allocs }),
		Bytes:             number(func(r row) float64 { return r.Bytes }),
		Commands:          number(func(r row) float64 { return r.Commands }),
		CommandsPerSecond: number(func(r row) float64 { return r.CommandsPerSecond }),
		Jain:              number(func(r row) float64 { return r.Jain }),
		Fewest:            number(func(r row) float64 { return r.Fewest }),
		Attempts:          number(func(r row) float64 { return r.Attempts }),
		Drained:           stats.Median(each(rounds, func(r row) time.Duration { return r.Drained }), stats.Mean[time.Duration]),
		Longest:           stats.Median(each(rounds, func(r row) time.Duration { return r.Longest }), stats.Mean[time.Duration]),
	}
}

func each[R, T any](rows []R, of func(R) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	return values
}
