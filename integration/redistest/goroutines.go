package redistest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// goroutinesWithin is how long goroutines that were told to end may take.
const goroutinesWithin = 3 * time.Second

// NoGoroutines notes which goroutines run, and returns a check that no others are left. The check waits a few seconds for them to
// end, then fails the test with the stack of each. A count would not do: one that ended meanwhile would hide one that leaked.
//
// It is not for tests that run in parallel with others, whose goroutines it can't tell apart.
func NoGoroutines(t testing.TB) (check func()) {
	t.Helper()
	before := goroutines()
	return func() {
		t.Helper()
		deadline := time.Now().Add(goroutinesWithin)
		for {
			left := leftGoroutines(before)
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("goroutines are left after %v: %d\n\n%s", goroutinesWithin, len(left), strings.Join(left, "\n\n"))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// leftGoroutines are the stacks of the goroutines that run now and did not run before.
func leftGoroutines(before map[string]string) []string {
	var left []string
	for id, stack := range goroutines() {
		if _, old := before[id]; !old && !ofHarness(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// ofHarness tells whether a goroutine belongs to testcontainers, which keeps one for its reaper until the containers are removed.
func ofHarness(stack string) bool {
	return strings.Contains(stack, "github.com/testcontainers/testcontainers-go")
}

// goroutines returns the stack of every goroutine by its number, which is never used twice in a process.
func goroutines() map[string]string {
	stacks := make(map[string]string)
	for stack := range strings.SplitSeq(allStacks(), "\n\n") {
		// goroutine 17 [chan receive]:
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		stacks[id] = strings.TrimSpace(stack)
	}
	return stacks
}

// allStacks grows its buffer until it holds every goroutine: a truncated dump would hide those at its end.
func allStacks() string {
	for buf := make([]byte, 1<<16); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return string(buf[:n])
		}
	}
}
