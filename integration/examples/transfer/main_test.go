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
	had, err := b.readAll(ctx, 7, "x", "alice")
	require.NoError(t, err)
	require.Equal(t, []int{opening}, had)
	require.ErrorIs(t, b.writeAll(ctx, 7, "y", entry{"bob", 0}), errTurnedAway, "the same fence, and another owner")
	require.NoError(t, b.writeAll(ctx, 7, "x", entry{"bob", 80}))
}

// A holder that is late does not write between the reading and the writing of the next one.
func TestAnEarlierHolderDoesNotWriteAfterALaterOneHasRead(t *testing.T) {
	ctx := t.Context()
	b, err := openBank(ctx, filepath.Join(t.TempDir(), "bank.db"), accounts, opening)
	require.NoError(t, err)
	defer func() { _ = b.db.Close() }()
	_, err = b.readAll(ctx, 8, "x", "alice", "bob")
	require.NoError(t, err)
	had, err := b.readAll(ctx, 9, "y", "bob", "carol")
	require.NoError(t, err)
	require.ErrorIs(t, b.writeAll(ctx, 8, "x", entry{"alice", opening - 10}, entry{"bob", opening + 10}), errTurnedAway)
	_, err = b.readAll(ctx, 8, "x", "alice", "bob")
	require.ErrorIs(t, err, errTurnedAway)
	require.NoError(t, b.writeAll(ctx, 9, "y", entry{"bob", had[0] - 5}, entry{"carol", had[1] + 5}))
	sum, _, err := b.total(ctx)
	require.NoError(t, err)
	require.Equal(t, opening*len(accounts), sum)
}
