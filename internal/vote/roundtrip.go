package vote

import (
	"sync/atomic"
	"time"
)

// roundTrips estimates how long a node takes to answer an acquire. Most answers of a distant node
// come after the decision, so those are measured as well. Reading the clock for every answer would
// cost too much. Of the grants, the first is measured, then one in sampleEvery, and the next after
// a silence.
type roundTrips struct {
	estimate atomic.Int64 // in nanoseconds: the recent maximum; 0 before the first
	answers  atomic.Uint32
	silent   atomic.Bool // it left an attempt unanswered and has not answered since
	_        [48]byte    // padding: each node's answers are counted on another goroutine
}

const (
	sampleEvery   = 32
	tripsPatience = 2 // a tied attempt waits for this many round trips of a node
	tripsDecay    = 8 // a shorter round trip lowers the estimate by this fraction of the difference
)

// isDue reports whether the next grant is to be measured.
func (t *roundTrips) isDue() bool {
	return t.answers.Add(1)%sampleEvery == 1 || t.silent.Load()
}

// measured records the duration of a grant or refusal. An answer after the node timeout ends a
// silence but is no round trip, because the node was frozen.
func (t *roundTrips) measured(took, nodeTimeout time.Duration) {
	t.silent.Store(false)
	if took > nodeTimeout {
		return
	}
	if e := time.Duration(t.estimate.Load()); took < e {
		took = e - (e-took)/tripsDecay
	}
	t.estimate.Store(int64(took))
}

// missed records that the node had not answered after this time. The node is then silent if the
// node timeout is over, or if a tied attempt would not wait longer for it.
func (t *roundTrips) missed(after time.Duration, timedOut bool) {
	if timedOut || after >= tripsPatience*time.Duration(t.estimate.Load()) {
		t.silent.Store(true)
	}
}

// patience returns how long after its start a tied attempt waits for the node. It is 0 for a node
// that was never measured or is silent.
func (t *roundTrips) patience() time.Duration {
	if t.silent.Load() {
		return 0
	}
	return tripsPatience * time.Duration(t.estimate.Load())
}
