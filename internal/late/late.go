// Package late decides which node of a test's nodes is late, for which clients, and by how much.
//
// A call that a majority decides says nothing about the other nodes. With REDLOCK_TEST_LATE=SEED in
// the environment one node of each set sees the requests of some clients late. A test that takes it
// for granted that each node has executed a command then fails. What matters is when the node
// executes, so its replies are not delayed. `make test-late` runs the tests in this way.
package late

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Variable is the environment variable that has the seed.
const Variable = "REDLOCK_TEST_LATE"

// The bounds of a delay. Shorter than the node timeouts of tests, and longer than anything that an
// idle machine does.
const (
	least = 200 * time.Millisecond
	most  = time.Second
)

// Set is a set of nodes of which one is late. The methods of a nil Set say that none is.
type Set struct {
	node int
	by   time.Duration

	mu  sync.Mutex
	rng *rand.Rand
}

// Of draws the late node of a test's n nodes. It returns nil without a seed, and if fewer than three
// nodes are there: then a majority is all of them. A seed and a test's name always give the same.
func Of(t testing.TB, n int) *Set {
	t.Helper()
	return Within(t, n, most)
}

// Within is Of for nodes whose delay must be less than that: for a client a node that answers after its
// node timeout has failed.
func Within(t testing.TB, n int, most time.Duration) *Set {
	t.Helper()
	seed, on := seed(t)
	if !on || n < 3 {
		return nil
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	s := &Set{node: rng.IntN(n), by: least + time.Duration(rng.Int64N(int64(most-least))), rng: rng}
	t.Logf("late: seed %d: node %d of %d sees requests of some clients after %v", seed, s.node, n, s.by)
	return s
}

// At makes that node, counted from 0, the late one. It is for a test that makes a node fail: as soon
// as a second one is late, no majority is in time.
func (s *Set) At(node int) {
	if s != nil {
		s.node = node
	}
}

// Is reports whether that node, counted from 0, is the late one.
func (s *Set) Is(node int) bool { return s != nil && s.node == node }

// Next draws by how much the late node sees the requests of the next client late: for one of three it is 0.
func (s *Set) Next() time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.IntN(3) == 0 {
		return 0
	}
	return s.by
}

// On reports whether there is a seed.
func On() bool { return os.Getenv(Variable) != "" }

// LeaveOut skips a test if there is a seed: it measures times, or needs every node to be equally
// fast. The reason says which.
func LeaveOut(t testing.TB, reason string) {
	t.Helper()
	if On() {
		t.Skip("late: left out: " + reason)
	}
}

func seed(t testing.TB) (uint64, bool) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("late: %s=%q: the seed is a whole number", Variable, text)
	}
	return n, true
}
