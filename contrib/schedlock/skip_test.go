package schedlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// A tick that another process runs, or that the end of the scheduler skips, is no fault. A tick that
// may have run in no process is one.
func TestTheLevelOfASkippedTickTellsAFault(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		level string
	}{
		"held":                {t.Context(), fmt.Errorf("acquire: %w", redlock.ErrHeld), "INFO"},
		"split votes":         {t.Context(), &redlock.QuorumError{Reason: redlock.ErrHeld, Split: true}, "ERROR"},
		"a quorum of holders": {t.Context(), &redlock.QuorumError{Reason: redlock.ErrHeld}, "INFO"},
		"no quorum":           {t.Context(), &redlock.QuorumError{Reason: redlock.ErrNoQuorum}, "ERROR"},
		"stopped in a split":  {stopped, &redlock.QuorumError{Reason: redlock.ErrHeld, Split: true}, "INFO"},
		"the scheduler stops": {stopped, context.Canceled, "INFO"},
		"the locker closed":   {t.Context(), redlock.ErrClosed, "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			j := &Jobs{config: Config{Logger: slog.New(slog.NewTextHandler(&logs, nil))}}
			j.skip(c.ctx, "report", c.err)
			require.Contains(t, logs.String(), "level="+c.level)
		})
	}
}
