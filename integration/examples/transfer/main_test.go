package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

func TestNoTransferLosesMoneyAndTheLateOneIsTurnedAway(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, show.Run("transfer", play, nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	require.Contains(t, out.String(), "wants to move 50 from bob to alice: account bob: turned away")
	require.Contains(t, out.String(), "4 workers have made 40 transfers")
	require.Contains(t, out.String(), "together hold 300")
}

func TestATransferIsWrittenCompletelyOrNotAtAll(t *testing.T) {
	ctx := t.Context()
	b, err := openBank(ctx, filepath.Join(t.TempDir(), "bank.db"), accounts, opening)
	require.NoError(t, err)
	defer func() { _ = b.db.Close() }()
	require.NoError(t, b.writeAll(ctx, 7, "x", entry{"bob", 90}))
	require.ErrorIs(t, b.writeAll(ctx, 6, "y", entry{"alice", 0}, entry{"bob", 200}), errTurnedAway)
	n, err := b.balance(ctx, "alice")
	require.NoError(t, err)
	require.Equal(t, opening, n)
	require.ErrorIs(t, b.writeAll(ctx, 7, "y", entry{"bob", 0}), errTurnedAway, "the same fence, and another owner")
	require.NoError(t, b.writeAll(ctx, 7, "x", entry{"bob", 80}))
}
