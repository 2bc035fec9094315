package show_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

// lock acquires a lock and prints a line.
func lock(ctx context.Context, s *show.Stage) error {
	l, err := redlock.Open(s.URLs)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close(ctx) }()
	return l.Do(ctx, "a", redlock.DefaultMaxTTL, func(context.Context, *redlock.Lock) error {
		s.Say("held on %d servers", len(s.URLs))
		return nil
	})
}

func TestAnExampleRunsOnItsOwnServers(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, show.Run("x", lock, nil, &out, &errs), "%s", &errs)
	require.Equal(t, "held on 3 servers\n", out.String())
	require.Empty(t, errs.String())
}

func TestTheExitStatusDistinguishesAFailureFromWrongUsage(t *testing.T) {
	var out, errs bytes.Buffer
	fails := func(context.Context, *show.Stage) error { return errors.New("it ended unexpectedly") }
	require.Equal(t, 1, show.Run("x", fails, nil, &out, &errs))
	require.Equal(t, "x: it ended unexpectedly\n", errs.String())
	require.Equal(t, 1, show.Run("x", lock, []string{"--nodes", "nonsense"}, &out, &errs))
	require.Equal(t, 2, show.Run("x", lock, []string{"--bogus"}, &out, &errs))
	require.Equal(t, 2, show.Run("x", lock, []string{"word"}, &out, &errs))
	require.Empty(t, out.String())
}
