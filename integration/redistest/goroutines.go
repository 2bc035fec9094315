package redistest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// goroutinesWithin bounds how long goroutines may take to end.
const goroutinesWithin = 3 * time.Second

// NoGoroutines records the running goroutines, and returns a check that no others are left. The
// check waits a few seconds for them to end, and then fails the test with the stack of each.
// Counting goroutines would not suffice: one that has ended meanwhile would hide one that leaked.
//
// It is not for tests that run in parallel with others, because it cannot distinguish their
// goroutines.
func NoGoroutines(t testing.TB) (check func()) {
	t.Helper()
	before := goroutines()
	return func() {
		t.Helper()
		var left []string
		if !polled(goroutinesWithin, 10*time.Millisecond, func() bool {
			left = leftGoroutines(before)
			return len(left) == 0
		}) {
			t.Fatalf("goroutines are left after %v: %d\n\n%s", goroutinesWithin, len(left), strings.Join(left, "\n\n"))
		}
	}
}

// leftGoroutines returns the stacks of the goroutines that run now and did not run before.
func leftGoroutines(before map[string]string) []string {
	var left []string
	for id, stack := range goroutines() {
		if _, old := before[id]; !old && !ofHarness(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// ofHarness reports whether a goroutine belongs to testcontainers, which keeps one for its reaper
// until the containers are removed.
func ofHarness(stack string) bool {
	return strings.Contains(stack, "github.com/testcontainers/testcontainers-go")
}

// goroutines returns the stacks of all goroutines by their number. A process never uses a number
// twice.
func goroutines() map[string]string {
	stacks := make(map[string]string)
	for stack := range strings.SplitSeq(allStacks(), "\n\n") {
		// goroutine 17 [chan receive]:
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		stacks[id] = strings.TrimSpace(stack)
	}
	return stacks
}

// allStacks enlarges its buffer until it holds every goroutine: a truncated dump would lose those
// at its end.
func allStacks() string {
	for buf := make([]byte, 1<<16); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return string(buf[:n])
		}
	}
}
