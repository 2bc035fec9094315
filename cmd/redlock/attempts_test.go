package main

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// attempts repeats a try that failed on a machine that was too busy: this process had to wait for a
// processor meanwhile. On an idle machine the first failure fails the test. A machine may be too busy
// for minutes, so there are many tries, and each needs a longer stall than the one before it. try returns what was wrong, "" for nothing.
func attempts(t *testing.T, try func() (wrong string)) {
	t.Helper()
	const most = 20
	for i := 1; ; i++ {
		wrong, stall := timed(try)
		if wrong == "" {
			return
		}
		if i == most || stall < time.Duration(i)*50*time.Millisecond {
			t.Fatalf("attempt %d, the longest stall took %v: %s", i, stall, wrong)
		}
		t.Logf("attempt %d, the longest stall took %v: %s", i, stall, wrong)
	}
}

// timed returns what try returned, and the longest time for which this process had to wait meanwhile.
func timed(try func() string) (wrong string, stall time.Duration) {
	longest := stalls()
	defer func() { stall = longest() }() // also if try ends the test
	return try(), 0
}

func TestATryThatEndsTheTestLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(*testing.T) { // it ends with its last goroutine
		go timed(func() string { runtime.Goexit(); return "" })
	})
}

// stalls watches how long this process has to wait for a processor. longest ends that, and returns
// the longest time.
func stalls() (longest func() time.Duration) {
	const tick = 10 * time.Millisecond
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-stop:
				result <- max(worst, time.Since(last)-tick) // after a stall both channels may be ready
				return
			case <-time.After(tick):
			}
			now := time.Now()
			worst = max(worst, now.Sub(last)-tick)
			last = now
		}
	}()
	return func() time.Duration { close(stop); return <-result }
}
