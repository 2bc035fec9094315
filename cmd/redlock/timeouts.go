package main

import (
	"context"
	"time"
)

var (
	// closeTimeout bounds how long a command waits at its end for nodes that have not answered. If all
	// nodes answer, a command ends at once, also on a busy machine. On a node that does not answer, the
	// keys expire by their TTL.
	closeTimeout = time.Second

	// answerTimeout bounds how long acquire waits for nodes that have not answered after a quorum has.
	answerTimeout = 250 * time.Millisecond

	// coldTimeout is how long a node's answer counts. It is longer than the library's default, because
	// every call of the command begins without connections: the first answer takes a dial, and perhaps
	// a TLS handshake.
	coldTimeout = 2 * time.Second

	// namesTimeout bounds how long a shell waits for the names that it completes.
	namesTimeout = 500 * time.Millisecond

	// drain is how long the processes that a command left behind may take to end by themselves:
	// `script > >(tee log)` leaves a tee that still has to write.
	drain = 500 * time.Millisecond

	// slowdown multiplies the times of the demo and of a bench.
	slowdown = 1
)

func slowed(d time.Duration) time.Duration { return time.Duration(slowdown) * d }

// lengthen makes all of them longer, for tests: a busy machine may stop a process for seconds.
// coldTimeout stays shorter than the time after which a silent connection is closed.
func lengthen() {
	closeTimeout, coldTimeout = 2*closeTimeout, 2*coldTimeout
	answerTimeout = 30 * time.Second
	namesTimeout *= 4
	drain *= 4
	slowdown = 4
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
