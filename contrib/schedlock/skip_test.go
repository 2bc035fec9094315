package schedlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// A tick that another run of the job holds, or that the end of the scheduler skips, is no fault. A tick
// that may have run in no process is one, and so is a key that would skip every tick.
func TestTheLevelOfASkippedTickTellsAFault(t *testing.T) {
	expires := &redlock.HeldError{Owner: "other", Remaining: 1500 * time.Millisecond}
	never := &redlock.HeldError{Remaining: -time.Millisecond}
	held := func(split bool, refusals ...error) error {
		e := &redlock.QuorumError{Op: "acquire", Reason: redlock.ErrHeld, Split: split, Need: 2, Votes: make([]redlock.Vote, 3)}
		for i, err := range refusals {
			e.Votes[i] = redlock.Vote{Node: fmt.Sprint("n", i+1), Outcome: redlock.OutcomeRefused, Err: err}
		}
		return fmt.Errorf("acquire: %w", e)
	}
	split := &redlock.QuorumError{Reason: redlock.ErrHeld, Split: true}
	mine := &redlock.HeldError{Owner: "here", ID: "1", Remaining: 2 * time.Second}
	runs, rests := own{id: "1", runs: true}, own{id: "1", minHold: 7 * time.Second}
	for name, c := range map[string]struct {
		err      error
		stopping bool
		here     own
		level    slog.Level
		says     string
	}{
		"held":                     {err: held(false, expires, expires), level: slog.LevelInfo, says: "the lock is held [owner other remaining 1.5s]"},
		"held, but not by whom":    {err: fmt.Errorf("acquire: %w", redlock.ErrHeld), level: slog.LevelError, says: "no lock [error "},
		"keys of dead clients":     {err: held(false, expires, &redlock.HeldError{ID: "2", Remaining: time.Second}), level: slog.LevelError, says: "no lock [error "},
		"split votes":              {err: split, level: slog.LevelError, says: "no lock [error "},
		"no expiry":                {err: held(false, never, never), level: slog.LevelError, says: "until it is deleted [error "},
		"foreign keys":             {err: held(true, redlock.ErrForeignKey, never), level: slog.LevelError, says: "until it is deleted [error "},
		"no expiry on a minority":  {err: held(false, never, expires, expires), level: slog.LevelInfo, says: "the lock is held [owner other"},
		"no expiry while it stops": {err: held(false, never, never), stopping: true, level: slog.LevelInfo, says: "the scheduler is stopping []"},
		"no quorum":                {err: &redlock.QuorumError{Reason: redlock.ErrNoQuorum}, level: slog.LevelError, says: "no lock [error "},
		"stopped in a split":       {err: split, stopping: true, level: slog.LevelInfo, says: "the scheduler is stopping []"},
		"the scheduler stops":      {err: context.Canceled, stopping: true, level: slog.LevelInfo, says: "the scheduler is stopping []"},
		"the locker closed":        {err: redlock.ErrClosed, level: slog.LevelError, says: "no lock [error "},
		"it runs here":             {err: held(true, mine), here: runs, level: slog.LevelInfo, says: "this process still runs the job []"},
		"its own minimum hold":     {err: held(true, mine), here: rests, level: slog.LevelWarn, says: "shorter than the interval [min_hold 7s remaining 2s]"},
		"no quorum after a run":    {err: redlock.ErrNoQuorum, here: rests, level: slog.LevelError, says: "no lock [error "},
		"no expiry after a run":    {err: held(false, never, never), here: rests, level: slog.LevelError, says: "until it is deleted [error "},
		"started without its lock": {err: ErrNoLock, here: runs, level: slog.LevelError, says: "no lock [error "},
		"stopped while it runs":    {err: context.Canceled, stopping: true, here: runs, level: slog.LevelInfo, says: "the scheduler is stopping []"},
		"held by another lock":     {err: held(false, expires, expires), here: rests, level: slog.LevelInfo, says: "the lock is held [owner other"},
		"held without an ID":       {err: held(false, expires, expires), here: own{}, level: slog.LevelInfo, says: "the lock is held [owner other"},
		"held by a request here":   {err: fmt.Errorf("%w: %w", redlock.ErrHeld, mine), level: slog.LevelInfo, says: "the lock is held [owner here remaining 2s]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := explain(c.err, c.stopping, c.here)
			require.Equal(t, c.level, s.level)
			require.Contains(t, fmt.Sprintf("%s %v", s.because, s.attributes), c.says)
		})
	}
}

// The votes of nine nodes are a long text, which nobody reads at each tick.
func TestASkippedTickIsOneShortLineAndItsVotesAreForDebug(t *testing.T) {
	var logs bytes.Buffer
	j := &job{
		Jobs:     New(nil, Config{Logger: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}),
		settings: Job{Name: "report"},
	}
	err := &redlock.QuorumError{Op: "acquire", Names: []string{"report"}, Reason: redlock.ErrHeld, Need: 1, Votes: []redlock.Vote{
		{Node: "n1", Outcome: redlock.OutcomeRefused, Err: &redlock.HeldError{Owner: "other", Remaining: 2 * time.Second}},
	}}
	require.Equal(t, error(err), j.skip(t.Context(), err))
	lines := bytes.Split(bytes.TrimSpace(logs.Bytes()), []byte("\n"))
	require.Len(t, lines, 2)
	require.Regexp(t, `level=INFO msg="a tick was skipped: the lock is held" job=report owner=other remaining=2s$`, string(lines[0]))
	require.Contains(t, string(lines[1]), `level=DEBUG msg="the votes on a skipped tick" job=report error=`)
	require.Contains(t, string(lines[1]), "n1: refused")
}

// A scheduler that is running may start a job before AddCron or AddGocron has refused it.
func TestATickWaitsUntilTheIntervalIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &job{Jobs: New(nil, Config{}), settings: Job{Name: "report", MinHold: time.Minute}, checked: make(chan struct{})}
		got := make(chan error, 1)
		go func() {
			_, err := j.begin(t.Context())
			got <- err
		}()
		synctest.Wait()
		require.Empty(t, got)
		require.ErrorIs(t, j.refuseInterval(time.Second, true), redlock.ErrInvalid)
		close(j.checked)
		require.ErrorIs(t, <-got, redlock.ErrInvalid)
	})
}
