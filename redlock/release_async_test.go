package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/rules.md rule 10: the next lock on the name follows the release in every node's queue.
func TestAnAsyncReleaseDoesNotWaitAndReportsByTrace(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var reported []RoundEvent
		l := fl.locker(WithTrace(&Trace{Released: func(e RoundEvent) { reported = append(reported, e) }}))
		fl.each(func(m *fakeredis.Master) { m.SetDelay(50 * time.Millisecond) })
		k := take(t, l, "a", time.Minute, WithAsyncRelease())
		require.Zero(t, elapsed(func() { require.NoError(t, k.Release(bg)) }))
		require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
		next := take(t, l, "a", time.Minute)
		require.NoError(t, k.Release(bg), "as the first time")
		fl.answered()
		require.Len(t, reported, 1)
		require.NoError(t, reported[0].Err)
		require.Positive(t, reported[0].Took)
		require.NoError(t, next.Release(bg))
	})
}

func TestAnUnconfirmedAsyncReleaseIsReportedByTraceAndClosed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var reported []error
		l := fl.locker(WithTrace(&Trace{Released: func(e RoundEvent) { reported = append(reported, e.Err) }}))
		k := take(t, l, "a", 10*time.Second, WithAsyncRelease())
		fl.each(func(m *fakeredis.Master) { m.Freeze() })
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0], ErrNoQuorum)
		fl.each(func(m *fakeredis.Master) { m.Unfreeze() })
		require.NoError(t, l.Close(bg), "it waits for what is being undone")
		require.Zero(t, fl.keys("a"))
	})
}

// Release reports a loss from before its call without querying the nodes.
func TestAnAsyncReleaseOfALostLockSaysSo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Second, WithAsyncRelease())
		pass(2 * time.Second)
		require.ErrorIs(t, k.Release(bg), ErrLost)
	})
}

// Otherwise metrics would count a lock that was lost as one that its holder released.
func TestTheUndoOfALostLockIsNotReportedAsAnAsyncRelease(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var reported []RoundEvent
		l := fl.locker(WithTrace(&Trace{Released: func(e RoundEvent) { reported = append(reported, e) }}))
		k := take(t, l, "a", time.Second, WithAsyncRelease())
		pass(2 * time.Second)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		require.Empty(t, reported)
	})
}
