package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

func TestCodesAreThoseOfTheReason(t *testing.T) {
	t.Parallel()
	votes := []redlock.Vote{{Err: redlock.ErrNodeTimeout}, {Err: &redlock.HeldError{Owner: "a"}}}
	quorum := func(reason error, split bool) error {
		return fmt.Errorf("x: %w", &redlock.QuorumError{Reason: reason, Split: split, Need: 2, Votes: votes})
	}
	for _, c := range []struct {
		want   string
		status int
		err    error
	}{
		{"held", ExitHeld, quorum(redlock.ErrHeld, false)},
		{"held", 99, quorum(redlock.ErrHeld, false)}, // --skip-status
		{"split", ExitHeld, quorum(redlock.ErrHeld, true)},
		{"no_quorum", ExitUnavailable, quorum(redlock.ErrNoQuorum, false)},
		{"too_late", ExitUnavailable, quorum(redlock.ErrTooLate, false)},
		{"lost", ExitLost, quorum(redlock.ErrLost, false)},
		{"quarantined", ExitHeld, quorum(redlock.ErrQuarantined, false)},
		{"signal", 130, SignalError{syscall.SIGINT}},
		{"signal", 130, nil},
		{"no_quorum", ExitUnavailable, context.DeadlineExceeded},
		{"system", ExitSystem, errors.New("no pipe")},
		{"not_executable", ExitNotExecutable, nil},
		{"not_found", ExitNotFound, nil},
		{"guard", ExitConfig, notBegunError{}},
		{"failed", ExitFailed, nil},
		{"failed", 3, errors.New("anything")},
	} {
		require.Equal(t, c.want, codeOf(c.status, c.err), "%d %v", c.status, c.err)
		require.Contains(t, Overview, c.want)
	}
	for _, c := range errorCodes {
		require.Contains(t, Overview, c.code)
	}
	cmd := &Subcommand{ExitStatuses: []ExitStatus{EndsSignal, EndsMisused}}
	require.Equal(t, EndsSignal.when, cmd.meaning(143))
	require.Equal(t, EndsMisused.when, cmd.meaning(ExitUsage))
	require.True(t, strings.HasSuffix(cmd.meaning(9), "9"))
}

func TestTheFailureOfALostLockHasTheHolder(t *testing.T) {
	t.Parallel()
	lost := &redlock.LostError{Reason: redlock.LossGone, Holder: &redlock.HeldError{Owner: "anna", ID: "7cce", Remaining: time.Second}}
	inv := &Invocation{}
	inv.FailSilently(lost, "job was lost")
	require.JSONEq(t, `{"error": "job was lost", "code": "lost", "owner": "anna", "id": "7cce", "left_ms": 1000, "reason": "gone", "overlap_ms": 0}`,
		string(Encoded(inv.failureJSON(ExitLost))))
	lost.Holder = nil
	require.JSONEq(t, `{"error": "job was lost", "code": "lost", "reason": "gone", "overlap_ms": 0}`, string(Encoded(inv.failureJSON(ExitLost))))
}
