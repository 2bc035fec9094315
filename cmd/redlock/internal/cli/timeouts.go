package cli

import (
	"context"
	"time"
)

var (
	// CloseTimeout bounds how long a command waits at its end for nodes that have not answered. If all
	// nodes answer, a command ends at once, also on a busy machine. On a node that does not answer, the
	// keys expire by their TTL.
	CloseTimeout = time.Second

	// AnswerTimeout bounds how long acquire waits for nodes that have not answered after a quorum has.
	AnswerTimeout = 250 * time.Millisecond

	// ColdTimeout is how long a node's answer counts. It is longer than the library's default, because
	// every call of the command begins without connections: the first answer takes a dial, and perhaps
	// a TLS handshake.
	ColdTimeout = 2 * time.Second

	// NamesTimeout bounds how long a shell waits for the names that it completes.
	NamesTimeout = 500 * time.Millisecond

	// Drain is how long the processes that a command left behind may take to end by themselves:
	// `script > >(tee log)` leaves a tee that still has to write.
	Drain = 500 * time.Millisecond

	// slowdown multiplies the times of the demo and of a bench.
	slowdown = 1
)

// Slowed returns a time of the demo or of a bench, longer in tests.
func Slowed(d time.Duration) time.Duration { return time.Duration(slowdown) * d }

// Lengthen makes all of them longer, for tests: a busy machine may stop a process for seconds. No test waits for
// ColdTimeout or NamesTimeout to end. Several wait for CloseTimeout, because they have stopped a master.
func Lengthen() {
	CloseTimeout *= 2
	AnswerTimeout = 30 * time.Second
	ColdTimeout, NamesTimeout = 10*time.Second, 10*time.Second
	Drain *= 4
	slowdown = 4
}

// Rest waits for d, or until ctx ends.
func Rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
