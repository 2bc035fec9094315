package schedlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// A tick that another process runs, or that the end of the scheduler skips, is no fault. A tick that
// may have run in no process is one, and so is a key that would skip every tick.
func TestTheLevelOfASkippedTickTellsAFault(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	expires := &redlock.HeldError{Remaining: time.Second}
	never := &redlock.HeldError{Remaining: -time.Millisecond}
	held := func(split bool, refusals ...error) error {
		e := &redlock.QuorumError{Reason: redlock.ErrHeld, Split: split, Need: 2, Votes: make([]redlock.Vote, 3)}
		for i, err := range refusals {
			e.Votes[i] = redlock.Vote{Outcome: redlock.OutcomeRefused, Err: err}
		}
		return fmt.Errorf("acquire: %w", e)
	}
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		level string
		says  string
	}{
		"held":                     {t.Context(), fmt.Errorf("acquire: %w", redlock.ErrHeld), "INFO", "the lock is held"},
		"split votes":              {t.Context(), &redlock.QuorumError{Reason: redlock.ErrHeld, Split: true}, "ERROR", "no lock"},
		"a quorum of holders":      {t.Context(), &redlock.QuorumError{Reason: redlock.ErrHeld}, "INFO", "the lock is held"},
		"no expiry":                {t.Context(), held(false, never, never), "ERROR", "until it is deleted"},
		"foreign keys":             {t.Context(), held(true, redlock.ErrForeignKey, never), "ERROR", "until it is deleted"},
		"no expiry on a minority":  {t.Context(), held(false, never, expires, expires), "INFO", "the lock is held"},
		"no expiry while it stops": {stopped, held(false, never, never), "INFO", "the scheduler is stopping"},
		"no quorum":                {t.Context(), &redlock.QuorumError{Reason: redlock.ErrNoQuorum}, "ERROR", "no lock"},
		"stopped in a split":       {stopped, &redlock.QuorumError{Reason: redlock.ErrHeld, Split: true}, "INFO", "the scheduler is stopping"},
		"the scheduler stops":      {stopped, context.Canceled, "INFO", "the scheduler is stopping"},
		"the locker closed":        {t.Context(), redlock.ErrClosed, "ERROR", "no lock"},
	} {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			j := &Jobs{config: Config{Logger: slog.New(slog.NewTextHandler(&logs, nil))}}
			j.skip(c.ctx, "report", c.err)
			require.Contains(t, logs.String(), "level="+c.level)
			require.Contains(t, logs.String(), c.says)
		})
	}
}
