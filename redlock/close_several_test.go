package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// The context is done before Close. Otherwise the process would end while keys of released locks are still there.
func TestACloseWhoseContextIsDoneWaitsForEveryUndo(t *testing.T) {
	for _, held := range []int{0, 20} {
		inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
			for i := range held {
				take(t, l, fmt.Sprintf("held %d", i), time.Minute)
			}
			var late []func()
			nodes[2].script = func(n *fakeNode, c *command.Command) bool {
				if c.Op == command.Release {
					c.MarkSent()
					late = append(late, func() { c.Answer(n.execute(c)) })
				}
				return c.Op == command.Release
			}
			for i := range 40 {
				require.NoError(t, take(t, l, fmt.Sprintf("released %d", i), time.Minute).Release(bg))
			}
			ctx, cancel := context.WithCancel(bg)
			cancel()
			done := begunClose(ctx, l)
			for _, answer := range late {
				synctest.Wait()
				require.Empty(t, done, "an undo is pending")
				answer()
			}
			synctest.Wait()
			require.Len(t, done, 1)
		})
	}
}

// Otherwise Release would wait for as long as a node does not answer.
func TestCloseDoesNotPutOffTheEndOfARelease(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Minute)
		answers := []func(){silent(nodes[1], command.Release), silent(nodes[2], command.Release)}
		released := make(chan error, 1)
		go func() { released <- k.Release(bg) }()
		synctest.Wait()
		done := begunClose(bg, l)
		pass(l.set.timeout(time.Minute))
		require.Len(t, released, 1)
		require.ErrorIs(t, <-released, ErrNoQuorum)
		for _, answer := range answers {
			answer()
		}
		require.NoError(t, <-done)
	})
}

// No caller has the lock, so the name must not stay taken for its minimum hold.
func TestALockThatIsWonWhileCloseBeginsIsReleased(t *testing.T) {
	const readings = 7 // of the clock, in an acquisition
	for n := range int64(readings) {
		synctest.Test(t, func(t *testing.T) {
			nodes, l, _, c := gated(t)
			c.gate(1 + n)
			got := make(chan error, 1)
			go func() { got <- second(l.TryAcquire(bg, "a", time.Minute, WithMinHold(time.Hour))) }()
			<-c.reached
			done := begunClose(bg, l)
			synctest.Wait()
			close(c.open)
			require.ErrorIs(t, <-got, ErrClosed, "reading %d", 1+n)
			require.NoError(t, <-done)
			for _, node := range nodes {
				require.Empty(t, node.commands(command.Shorten), "reading %d", 1+n)
				require.Len(t, node.commands(command.Release), len(node.commands(command.Acquire)))
			}
		})
	}
}

// Otherwise keys could be created after Close has returned.
func TestAnAcquireSendsNothingAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l, _, c := gated(t)
		c.gate(1) // it has passed the check whether the Locker is closed
		got := make(chan error, 1)
		go func() { got <- second(l.TryAcquire(bg, "a", time.Minute)) }()
		<-c.reached
		require.NoError(t, l.Close(bg))
		close(c.open)
		require.ErrorIs(t, <-got, ErrClosed)
		for _, n := range nodes {
			require.Empty(t, n.commands(command.Acquire))
		}
	})
}
