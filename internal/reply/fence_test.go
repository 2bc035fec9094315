package reply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestAFenceIsReadAsSeenFromTheHint(t *testing.T) {
	const limit = 1 << 53
	for _, c := range []struct {
		hint, reply int64
		outcome     command.Outcome
		fence       int64
	}{
		{aHint, 0, command.Refused, 0},
		{aHint, 1, command.Granted, aHint},
		{aHint, 2, command.Granted, aHint + 1},
		{aHint, -1, command.Granted, aHint - 1},
		{aHint, 1 - aHint, command.Granted, 1},
		{aHint, -aHint, command.Unknown, 0}, // the fence would be 0, and then negative
		{aHint, -aHint - 1, command.Unknown, 0},
		{aHint, -1 << 63, command.Unknown, 0},
		{aHint, limit - aHint, command.Granted, limit - 1},
		{aHint, limit - aHint + 1, command.Unknown, 0},
		{aHint, 1<<63 - 1, command.Unknown, 0},
		{1, 1, command.Granted, 1},
		{1, -1, command.Unknown, 0},
		{1, limit - 1, command.Granted, limit - 1},
		{1, limit, command.Unknown, 0},
		{limit - 1, 1, command.Granted, limit - 1},
		{limit - 1, 2, command.Unknown, 0},
		{limit - 1, 2 - limit, command.Granted, 1},
		{limit - 1, 1 - limit, command.Unknown, 0},
	} {
		r := decodeFence(c.reply, c.hint)
		require.Equal(t, c.outcome, r.Outcome, "%+v", c)
		require.Equal(t, c.fence, r.Fence, "%+v", c)
		require.Equal(t, c.outcome == command.Unknown, r.Err != nil, "%+v", c)
	}
	for _, v := range []any{nil, "OK", "1", []byte("1"), []any{int64(1)}, 1, uint64(1), 1.0} {
		require.Equal(t, command.Unknown, decodeFence(v, aHint).Outcome, "%T", v)
	}
}

func TestAConfirmationIsYesOrNo(t *testing.T) {
	c := confirming("A", "k", "l")
	for reply, outcome := range map[int64]command.Outcome{0: command.Refused, 1: command.Granted, 2: command.Unknown, -1: command.Unknown} {
		require.Equal(t, outcome, Decode(c, reply, nil).Outcome, reply)
	}
}

func TestTheUsualFenceCostsNoAllocation(t *testing.T) {
	c := fencing("A", time.Second, "k")
	var r command.Reply
	for _, reply := range []int64{0, 1, 2, 255} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			r = Decode(c, reply, nil)
		}), reply)
	}
	require.Equal(t, command.Granted, r.Outcome)
}
