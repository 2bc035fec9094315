package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	scenarios = flag.Uint64("sim.scenarios", number("SIM_SCENARIOS", 100), "how many scenarios are played; SIM_SCENARIOS sets the default")
	first     = flag.Uint64("sim.seed", 0, "the seed of the first scenario")
	soak      = flag.Duration("sim.soak", 0, "play for that long instead")
)

func number(variable string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // the scripts of the masters produce short-lived garbage
	if os.Getenv("CI") != "" {
		// CI shows whether a change broke something, so it always runs the same sequences. make
		// nightly searches for new ones.
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// report prints the progress.
func report(counts *counted, played, violations int64, began time.Time) string {
	counts.mu.Lock()
	defer counts.mu.Unlock()
	var b strings.Builder
	took := time.Since(began)
	fmt.Fprintf(&b, "%d scenarios in %v, %.0f a second, %d violations\n", played, took.Round(time.Second), float64(played)/took.Seconds(), violations)
	for _, kind := range slices.Sorted(maps.Keys(counts.of)) {
		fmt.Fprintf(&b, "  %-18s %d\n", kind, counts.of[kind])
	}
	return b.String()
}

// liveHeap returns the number of reachable bytes on the heap.
func liveHeap() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// requireFlat compares the lowest samples of the second quarter and of the last quarter. A run with
// few samples is not checked.
func requireFlat(t *testing.T, live []uint64) {
	t.Helper()
	quarter := len(live) / 4
	if quarter < 3 {
		return
	}
	before, after := slices.Min(live[quarter:2*quarter]), slices.Min(live[3*quarter:])
	fmt.Printf("sim: live heap %d kB in the second quarter, %d kB in the last\n", before>>10, after>>10)
	require.Less(t, after, before+before/4+1<<20, "the heap grows")
}

// docs/dev/rules.md, promises 1, 3 and 5, under random faults. A scenario that fails prints its seed:
// -sim.seed=N -sim.scenarios=1 runs it again.
func TestEveryPromiseHoldsUnderItsAssumptions(t *testing.T) {
	var counts counted
	var next, played, bad atomic.Int64
	began, goroutines := time.Now(), runtime.NumGoroutine()
	var live []uint64 // bytes of the heap, every 20 s
	stopped, reported := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reported)
		for {
			select {
			case <-stopped:
				return
			case <-time.After(20 * time.Second):
				live = append(live, liveHeap())
				fmt.Print("sim: ", strings.SplitAfter(report(&counts, played.Load(), bad.Load(), began), "\n")[0])
			}
		}
	}()
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker ", i), func(t *testing.T) {
				t.Parallel()
				for {
					n := uint64(next.Add(1) - 1)
					if *soak > 0 && time.Since(began) > *soak || *soak == 0 && n >= *scenarios {
						return
					}
					p := draw(*first + n)
					for _, v := range run(t, p, &counts) {
						bad.Add(1)
						t.Errorf("%v\n  %s", p, v)
					}
					p.trace.write(p.kind(), p)
					played.Add(1)
				}
			})
		}
	})
	close(stopped)
	<-reported
	fmt.Print("sim: ", report(&counts, played.Load(), bad.Load(), began))
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // goroutines that have reported their end may not have ended yet
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "goroutines are left")
	requireFlat(t, live)
	if played.Load() >= 100 {
		require.Greater(t, counts.of["acquired"], 2*int(played.Load()), "the simulation acquires too few locks")
		for _, kind := range slices.Concat(withinAssumptions, backward, amnesia, beyond) {
			require.NotZero(t, counts.of["fault "+kind], kind)
		}
		for _, kind := range []string{"extended by less", "extended by more", "second name alone"} {
			require.NotZero(t, counts.of[kind], kind)
		}
	}
}

func TestASeedReproducesTheScriptOfItsFaults(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, draw(seed).String(), draw(seed).String())
	}
}

// seen returns the first violation that begins with a text.
func seen(violations []string, kind string) string {
	for _, v := range violations {
		if strings.HasPrefix(v, kind) {
			return v
		}
	}
	return ""
}

// letters matches what the name of a file should not have.
var letters = regexp.MustCompile(`[^a-z]+`)

// The oracles must detect what is broken on purpose. Otherwise they prove nothing.
func TestEveryBrokenAssumptionIsDetected(t *testing.T) {
	base := func(p *plan) {
		p.masters, p.clients, p.workers, p.rounds, p.ttl = 3, 3, 2, 3, 300*time.Millisecond
		p.guard, p.repair, p.fencing, p.excludes, p.durable = false, false, false, true, true
		p.clientRates, p.masterRates, p.offsets, p.kinds = 0, 0, 0, []string{"delay"}
	}
	for name, control := range map[string]struct {
		breaks func(p *plan)
		seen   string // by an oracle
		// rejected is the event at which the proof's checker must reject the trace, and the reason. Without an event
		// the clocks are the reason.
		rejected string
	}{
		"a client's clock beyond the drift allowance": {func(p *plan) { p.clientRates = 0.3 }, "at once", "the clocks differ by more than is assumed"},
		"amnesia without the guard": {
			func(p *plan) { p.kinds = []string{"empty", "flush", "everysec", "failover"} }, "at once",
			"restart: breaks an assumption: nodes forget nothing",
		},
		"nodes' clocks too far apart, and amnesia": {func(p *plan) {
			p.guard, p.fencing, p.durable, p.offsets, p.kinds = true, true, false, time.Hour, []string{"flush", "empty", "pause"}
			p.rounds = 6
		}, "fences", "the clocks differ by more than is assumed"},
		"a token used twice": {
			func(p *plan) { p.faultyClient, p.kinds = twice, []string{"cut", "reset", "pause"} }, "at once",
			"acquire: the token was used before",
		},
		// A lock that was passed may leave a key without any fault.
		"an undo without order": {
			func(p *plan) { p.faultyClient, p.unpassed = unordered, true }, "left",
			"exec: breaks an assumption: no acquire or repair after the undo",
		},
		"an undo while the handle is valid": {
			func(p *plan) { p.faultyClient = tooEarly }, "at once",
			"release: the token may be valid: its end is not in the trace before",
		},
		"a late extension that revives": {
			func(p *plan) { p.faultyClient = revived }, "at once",
			"exec: the node cannot have answered this; it would have: refused",
		},
		"an extension that creates": {
			func(p *plan) { p.faultyClient, p.rounds = creating, 8 }, "at once",
			"exec: the node cannot have answered this; it would have: refused",
		},
		"a repair in quarantine": {func(p *plan) {
			p.guard, p.repair, p.ttl, p.directed, p.faultyClient = true, true, 1500*time.Millisecond, forgottenGrant, repairing
		}, "at once", "exec: the node cannot have answered this; it would have: unfit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 1000
			for seed := range uint64(most) {
				p := draw(seed)
				base(p)
				control.breaks(p)
				p.rejected = control.rejected
				p.script()
				if v := seen(run(t, p, &counted{}), control.seen); v != "" {
					t.Logf("seed %d: %s", seed, v)
					p.trace.write("broken-"+letters.ReplaceAllString(name, "-"), p)
					if p.faultyClient != nil { // the control: without the faulty client nothing must be detected
						p.faultyClient, p.rejected = nil, ""
						require.Empty(t, run(t, p, &counted{}), "%v", p)
						p.trace.write("mended-"+letters.ReplaceAllString(name, "-"), p)
					}
					return
				}
			}
			t.Errorf("nothing was detected in %d scenarios", most)
		})
	}
}
