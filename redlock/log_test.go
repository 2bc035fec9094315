package redlock

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// newLines returns the log's lines since the last call, with level and message.
func (b *logged) newLines(t *testing.T) (list []string) {
	t.Helper()
	synctest.Wait()
	for _, line := range b.lines() {
		found := logLine.FindStringSubmatch(line)
		require.NotNil(t, found, line)
		list = append(list, found[1]+" "+found[2])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
	return list
}

var logLine = regexp.MustCompile(`level=(\w+) msg="redlock: (.*?)"`)

func TestALockThatIsTakenExtendedAndReleasedIsNoNews(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		life(t, l, "a")
		take(t, fl.locker(), "b", time.Minute)
		_, err := l.TryAcquire(bg, "b", time.Minute)
		require.ErrorIs(t, err, ErrHeld, "nor is one that another client holds")
		require.Empty(t, log.newLines(t))
	})
}

func TestWhatEndsALockUnderItsHolderIsAWarning(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()), WithOwner("me"))
		k := take(t, l, "a", time.Second)
		pass(time.Second)
		lines := strings.Join(log.lines(), "")
		require.Contains(t, lines, "owner=me id="+k.ID())
		require.NotContains(t, lines, strings.TrimPrefix(k.Token(), "me:"), "the token could release the lock")
		require.Equal(t, []string{"WARN lock ended under its holder"}, log.newLines(t))
		k = take(t, l, "a", time.Minute, WithMaxHold(time.Second))
		shared(t, shared(t, k))
		pass(time.Second)
		require.Equal(t, []string{"WARN lock ended under its holder"}, log.newLines(t), "and not one for each share")
	})
}

func TestNodesThatDoNotExtendAndAReleaseThatCannotBeConfirmedAreWarnings(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		k := take(t, l, "a", time.Minute)
		fl.each(func(m *fakeredis.Master) { m.FailWith("*", "LOADING Redis is loading the dataset in memory") })
		require.ErrorIs(t, k.Extend(bg, time.Minute), ErrNoQuorum)
		fl.answered()
		lines := log.newLines(t)
		require.Equal(t, slices.Repeat([]string{"WARN a node does not extend held locks"}, 3), lines)
		require.ErrorIs(t, k.Release(bg), ErrNoQuorum)
		require.Equal(t, []string{"WARN release not confirmed"}, log.newLines(t))
	})
}

func TestNoQuorumIsLoggedOnceAndSoIsItsReturn(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		fl.each(func(m *fakeredis.Master) { m.FailWith("*", "LOADING Redis is loading the dataset in memory") })
		for range 3 {
			_, err := l.TryAcquire(bg, "a", time.Minute)
			require.ErrorIs(t, err, ErrNoQuorum)
		}
		require.Equal(t, []string{"WARN no quorum votes: nothing can be acquired"}, log.newLines(t))
		fl.each(func(m *fakeredis.Master) { m.FailWith("*", "") })
		pass(time.Second) // the connections are up again
		for range 3 {
			take(t, l, "a", time.Second)
			pass(time.Second)
		}
		require.Equal(t, "INFO a quorum votes again", log.newLines(t)[0])
		for _, line := range log.newLines(t) {
			require.Equal(t, "WARN lock ended under its holder", line)
		}
	})
}

func TestAnAttemptThatItsContextCutsShortSaysNothingOfTheNodes(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Second) })
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, log.newLines(t))
	})
}

func TestANodeThatDoesNotVoteIsLoggedOnceAndSoIsItsReturn(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it does not vote
		l := fl.guarded(WithLogger(log.logger()))
		require.NoError(t, take(t, l, "a", 2*time.Second).Release(bg)) // with the votes of all nodes
		fl.answered()
		require.Contains(t, log.newLines(t), "INFO a quorum votes again", "new nodes wait once")
		require.NoError(t, fl.masters[2].Restart(false))
		pass(time.Second)
		for range 3 {
			require.NoError(t, take(t, l, "a", 2*time.Second).Release(bg))
		}
		require.Equal(t, []string{"WARN a node does not vote"}, log.newLines(t))
		pass(2 * guardTTL)
		require.NoError(t, take(t, l, "a", 2*time.Second).Release(bg))
		require.Equal(t, []string{"INFO a node votes again"}, log.newLines(t))
	})
}

func TestSeveralTracesAreAllCalled(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		first, second := map[string]int{}, map[string]int{}
		l := fl.locker(WithLogger(log.logger()), WithTrace(nil),
			WithTrace(hooks(func(hook string) { first[hook]++; panic("the first one's") })),
			WithTrace(hooks(func(hook string) { second[hook]++ })))
		life(t, l, "a")
		fl.answered()
		require.Len(t, second, 7)
		require.Equal(t, first, second)
	})
}

func TestEventsReportContextTimeAndValidity(t *testing.T) {
	type mark struct{}
	inBubble(t, 3, func(fl *testbed) {
		began := time.Now()
		var when []EventInfo
		var starts, ends []HoldEvent
		note := func(m EventInfo) { when = append(when, m) }
		l := fl.locker(WithTrace(&Trace{
			Attempt:  func(e RoundEvent) { note(e.EventInfo) },
			Acquired: func(e WaitEvent) { note(e.EventInfo) },
			Started:  func(e HoldEvent) { note(e.EventInfo); starts = append(starts, e) },
			Extended: func(e RoundEvent) { note(e.EventInfo) },
			Ended:    func(e HoldEvent) { note(e.EventInfo); ends = append(ends, e) },
			Released: func(e RoundEvent) { note(e.EventInfo) },
		}))
		ctx := context.WithValue(bg, mark{}, "span")
		k, err := l.Acquire(ctx, "a", 10*time.Second)
		require.NoError(t, err)
		share, err := l.Acquire(k.Context(), "a", time.Second, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		pass(time.Second)
		require.NoError(t, k.Extend(bg, 10*time.Second))
		require.NoError(t, k.Release(bg))
		take(t, l, "b", time.Second)
		pass(time.Second)

		require.Len(t, ends, 3)
		require.True(t, ends[0].Shared)
		require.Zero(t, ends[0].Validity)
		require.False(t, ends[1].Shared)
		require.Equal(t, worth(10*time.Second), ends[1].Validity)
		require.ErrorIs(t, ends[2].Cause, ErrLost)
		require.Zero(t, ends[2].Validity)
		require.Len(t, starts, 3)
		require.Equal(t, worth(10*time.Second), starts[0].Validity)
		require.True(t, starts[1].Shared)
		require.Zero(t, starts[1].Validity)
		for _, m := range when[:8] {
			require.Equal(t, "span", m.Context.Value(mark{}))
		}
		require.Equal(t, began.UnixMicro(), when[0].At.UnixMicro())
		require.Equal(t, began.Add(time.Second).UnixMicro(), when[7].At.UnixMicro())
	})
}
