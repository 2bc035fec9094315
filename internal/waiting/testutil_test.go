package waiting

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

var (
	bg        = context.Background()
	errClosed = errors.New("closed")
)

// newTable returns a table over three nodes without pub/sub, and a function that closes its wait.
func newTable() (t *Table, closeWaits func()) {
	closing := make(chan struct{})
	c := clock.Runtime()
	return NewTable(Config{
		Nodes: make([]command.Node, 3), Clock: c, Timers: timer.New(c), Backoff: Backoff{Min: time.Millisecond, Max: time.Second},
		PollTimeout: time.Second, Closing: closing, ErrClosed: errClosed,
	}), func() { close(closing) }
}

// inBubble runs f with a table, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, table *Table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTable()
		f(t, table)
		names, channels := table.Size()
		require.Zero(t, names, "names with a state")
		require.Zero(t, channels)
	})
}

// contender waits for names on a goroutine of its own.
type contender struct {
	Waiter
	table   *Table
	attempt *vote.Round        // that NewAttempt returns; may be nil
	begun   chan outcome       // of Enter
	cancel  context.CancelFunc // ends the context of Enter
	blocked []clock.Instant    // as the last poll found
	goesOn  atomic.Int32       // how often Woken was called
}

type outcome struct {
	attempt *vote.Round
	err     error
}

func (c *contender) NewAttempt() *vote.Round              { return c.attempt }
func (c *contender) Failed() []bool                       { return make([]bool, 3) }
func (c *contender) Polled(until []clock.Instant, _ bool) { c.blocked = until }
func (c *contender) Waits()                               {}
func (c *contender) Woken(Reason)                         { c.goesOn.Add(1) }
func (c *contender) Inherits(Contender)                   {}

// enter returns a new contender in the queues of names, which waits or has its turn.
func enter(t *Table, names ...string) *contender {
	c := &contender{table: t, attempt: new(vote.Round)}
	c.enter(names...)
	return c
}

// enter queues the contender, and returns when it waits or has its turn.
func (c *contender) enter(names ...string) {
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(bg)
	c.begun = make(chan outcome, 1)
	go func() {
		attempt, err := c.table.Enter(ctx, &c.Waiter, names, c)
		c.begun <- outcome{attempt, err}
	}()
	synctest.Wait()
}

// fails is the failure of its attempt. It returns when the contender waits, or has its turn again.
func (c *contender) fails(seen verdict.Contention) {
	<-c.begun
	go func() {
		attempt, err := c.Wait(seen)
		c.begun <- outcome{attempt, err}
	}()
	synctest.Wait()
}

// failed records the failure of its attempt, and does not wait.
func (c *contender) failed(seen verdict.Contention) step {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.failedLocked(seen)
}

// refusal is why an attempt of the contender failed that had no vote.
func refusal(c *contender) verdict.Why {
	if c.MayAssumeHeld() {
		return verdict.Assumed
	}
	return verdict.Split
}

// hasTurn reports whether the contender is at the head and was told so.
func (c *contender) hasTurn() bool { return len(c.begun) > 0 && c.atHead() }

// leave gives the contender's turn up, or cancels its wait.
func (c *contender) leave() {
	c.cancel()
	<-c.begun
	c.Leave()
	synctest.Wait()
}

// requireTurn checks that the contenders have their turn, or that none of them has.
func requireTurn(t *testing.T, want bool, all ...*contender) {
	t.Helper()
	for i, c := range all {
		require.Equal(t, want, c.hasTurn(), "contender %d", i)
	}
}

// clearSignals is what precedes an attempt.
func clearSignals(w *Waiter) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.clearSignalsLocked()
}
