package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// numbered returns so many names.
func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("invoice/%05d", i)
	}
	return all
}

// The error named each of the locks and had 90 kB.
func TestTheErrorOfCloseNamesAFewOfManyHeldLocks(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		l := fl.locker()
		const n = 10_000
		for _, name := range numbered(n) {
			take(t, l, name, time.Hour)
		}
		ctx, cancel := context.WithCancel(bg)
		cancel()
		err := l.Close(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `"invoice/00004"] and 9995 more`)
		require.Less(t, len(err.Error()), 500, err)
		require.Len(t, l.Held(), n, "Held has all of them")
	})
}

func TestErrorsAndLogLinesNameAFewOfManyNames(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		names := numbered(maxNames)
		k, err := l.AcquireAll(bg, names, time.Minute)
		require.NoError(t, err)
		require.Less(t, len(k.String()), 500)
		_, err = l.AcquireAll(k.Context(), names, time.Minute)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		require.Less(t, len(err.Error()), 500, err)
		_, err = fl.locker().TryAcquireAll(bg, names, time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.Less(t, len(err.Error()), 700, err)
		var e *QuorumError
		require.ErrorAs(t, err, &e)
		require.Equal(t, names, e.Names, "the field has all of them")
		fl.each(func(m *fakeredis.Master) { m.FailWith("*", "LOADING Redis is loading the dataset in memory") })
		require.ErrorIs(t, k.Extend(bg, time.Minute), ErrNoQuorum)
		_, err = l.TryAcquireAll(bg, names, time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		claim, err := k.Detach()
		require.NoError(t, err)
		require.Less(t, len(claim.String()), 500)
		synctest.Wait()
		named := 0
		for _, line := range log.lines() {
			require.Less(t, len(line), 2000, line)
			if strings.Contains(line, "invoice/") {
				require.Contains(t, line, "invoice/00004 and 1019 more]")
				named++
			}
		}
		require.Equal(t, 1, named, "an acquisition that failed")
	})
}

func TestOfManyVotesAnErrorNamesFiveThatExplainIt(t *testing.T) {
	votes := make([]Vote, 9)
	for i := range votes {
		votes[i] = Vote{Node: fmt.Sprint("n", i+1), Outcome: OutcomeGranted}
	}
	for _, i := range []int{2, 5, 6, 7, 8} {
		votes[i].Outcome, votes[i].Err = OutcomeUnknown, ErrNodeTimeout
	}
	err := &QuorumError{Op: "acquire", Names: []string{"a"}, Need: 5, Votes: votes, Reason: ErrNoQuorum}
	for _, node := range []string{"n3", "n6", "n7", "n8", "n9"} {
		require.ErrorContains(t, err, node+": unknown: no answer within the node timeout")
	}
	require.ErrorContains(t, err, "n9: unknown: no answer within the node timeout and 4 more]")
	require.NotContains(t, err.Error(), "granted")
	require.Len(t, err.Unwrap(), 6, "errors.Is finds all of them")
}
