package main

import (
	"bytes"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestThePausedWorkerIsTurnedAwayByTheCheckAlone(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, show.Run("fencing", play, nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	without, with, ok := bytes.Cut(out.Bytes(), []byte("\n\n"))
	require.True(t, ok)
	require.Contains(t, string(without), "the account holds 110: B's 50 are lost")
	require.NotContains(t, string(without), "turned away")
	require.Contains(t, string(with), "turned away")
	require.Contains(t, string(with), "the account holds 160: nothing is lost")
}

// The database's check and redlock.AcceptFence accept the same fences.
func TestTheDatabaseAcceptsWhatAcceptFenceAccepts(t *testing.T) {
	const most = 1<<53 - 1
	for i, c := range []struct {
		seen      int64
		seenOwner string
		fence     int64
		owner     string
	}{
		{0, "", 1, "a"},
		{1, "a", 2, "b"},
		{2, "a", 2, "a"},
		{2, "a", 2, "b"},
		{2, "a", 1, "a"},
		{2, "a", 1, "b"},
		{most - 1, "a", most, "b"},
		{most, "a", most - 1, "b"},
	} {
		b, err := openBank(t.Context(), filepath.Join(t.TempDir(), strconv.Itoa(i)), true)
		require.NoError(t, err)
		if c.seen > 0 {
			require.NoError(t, b.write(t.Context(), 1, c.seen, c.seenOwner))
		}
		want := error(nil)
		if !redlock.AcceptFence(c.seen, c.seenOwner, c.fence, c.owner) {
			want = errTurnedAway
		}
		require.ErrorIs(t, b.write(t.Context(), 2, c.fence, c.owner), want, "%+v", c)
		balance, err := b.balance(t.Context())
		require.NoError(t, err)
		require.Equal(t, want == nil, balance == 2, "%+v", c)
		_, err = b.read(t.Context(), c.fence, c.owner)
		require.ErrorIs(t, err, want, "%+v", c)
		require.NoError(t, b.db.Close())
	}
}

// A holder that is late does not write between the reading and the writing of the next one.
func TestAnEarlierHolderDoesNotWriteAfterALaterOneHasRead(t *testing.T) {
	b, err := openBank(t.Context(), filepath.Join(t.TempDir(), "bank"), true)
	require.NoError(t, err)
	_, err = b.read(t.Context(), 8, "a")
	require.NoError(t, err)
	balance, err := b.read(t.Context(), 9, "b")
	require.NoError(t, err)
	require.ErrorIs(t, b.write(t.Context(), 0, 8, "a"), errTurnedAway)
	require.NoError(t, b.write(t.Context(), balance+1, 9, "b"))
	require.NoError(t, b.db.Close())
}
