package otelredlock

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// background is the context of events without a caller.
var background = context.Background()

// quarantines records which nodes do not vote under the restart guard, by their answers to
// acquisitions.
type quarantines struct {
	clock clock.Clock

	mu    sync.Mutex // guards the fields below
	until map[string]clock.Instant
}

func newQuarantines(c clock.Clock) *quarantines {
	return &quarantines{clock: c, until: map[string]clock.Instant{}}
}

// saw records a vote. Only an acquisition shows whether a node votes: other requests are also
// granted by nodes in quarantine.
func (q *quarantines) saw(e redlock.VoteEvent) {
	var why *redlock.QuarantineError
	in := errors.As(e.Vote.Err, &why)
	out := e.Op == "acquire" && (e.Vote.Outcome == redlock.OutcomeGranted || e.Vote.Outcome == redlock.OutcomeRefused)
	if !in && !out {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if in {
		q.until[e.Vote.Node] = q.clock.Now().Add(why.Remaining)
	} else {
		delete(q.until, e.Vote.Node)
	}
}

func (q *quarantines) observe(_ context.Context, o metric.Int64Observer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, n := q.clock.Now(), int64(0)
	for _, until := range q.until {
		if now.Before(until) {
			n++
		}
	}
	o.Observe(n)
	return nil
}
