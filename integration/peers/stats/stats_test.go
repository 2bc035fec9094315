package stats_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

func TestTheMedianIsTheMiddleOneOrTheMeanOfTheTwoInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{100, 1, 3, 2}, 2.5},
	} {
		before := append([]float64(nil), c.of...)
		assert.InDelta(t, c.want, stats.Median(c.of, stats.Mean[float64]), 1e-9, "%v", c.of)
		assert.Equal(t, before, c.of, "Median does not sort the slice of its caller")
	}
	assert.Equal(t, 15*time.Millisecond, stats.Median([]time.Duration{20e6, 10e6}, stats.Mean[time.Duration]))
}

func TestJainIsOneForEqualSharesAndOneNthIfOneHasAll(t *testing.T) {
	assert.InDelta(t, 1, stats.Jain([]int{5, 5, 5, 5}), 1e-9)
	assert.InDelta(t, 0.25, stats.Jain([]int{0, 8, 0, 0}), 1e-9)
	assert.InDelta(t, 0.9, stats.Jain([]int{1, 2}), 1e-9) // 9 / (2×5)
	assert.Zero(t, stats.Jain([]int{0, 0}))
	assert.Zero(t, stats.Jain(nil))
}

func TestQuantilesAreThoseOfTheSortedDurationsToWithinOnePercent(t *testing.T) {
	d := stats.Distribution{}
	for i := 1; i <= 1000; i++ {
		d.Add(time.Duration(i) * time.Millisecond)
	}
	require.Equal(t, 1000, d.Count())
	for q, want := range map[float64]time.Duration{
		0: time.Millisecond, 0.001: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second,
	} {
		assert.InEpsilon(t, want, d.Quantile(q), 0.01, "%v", q)
	}
	assert.Equal(t, []time.Duration{d.Quantile(0.1), d.Quantile(0.9)}, d.Quantiles([]float64{0.1, 0.9}))
}

func TestTheQuantilesOfNothingAreZero(t *testing.T) {
	assert.Equal(t, []time.Duration{0, 0}, stats.Distribution{}.Quantiles([]float64{0.5, 1}))
}

func TestEveryDurationIsRecordedToWithinOnePercent(t *testing.T) {
	for d := time.Duration(1); d < 9*time.Hour; d += d/7 + 1 {
		of := stats.Distribution{}
		of.Add(d)
		assert.InEpsilon(t, d, of.Quantile(0.5), 0.01, "%v", d)
	}
	of := stats.Distribution{}
	of.Add(-time.Second)
	assert.Zero(t, of.Quantile(1), "a clock that two cores read may go back a little")
}

func TestWhatRecordersAndDistributionsHoldIsAddedUp(t *testing.T) {
	var r stats.Recorder
	r.Add(time.Millisecond)
	r.Add(time.Millisecond)
	a, b := stats.Distribution{}, stats.Distribution{}
	a.Take(&r)
	b.Add(time.Second)
	a.Merge(b)
	assert.Equal(t, 3, a.Count())
	assert.InEpsilon(t, time.Second, a.Quantile(1), 0.01)

	text, err := json.Marshal(a)
	require.NoError(t, err)
	var read stats.Distribution
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, a, read)
}

func TestRecordingAllocatesNothing(t *testing.T) {
	var r stats.Recorder
	assert.Zero(t, testing.AllocsPerRun(100, func() { r.Add(time.Millisecond) }))
}
