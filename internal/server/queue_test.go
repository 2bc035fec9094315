package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestTheQueueKeepsItsOrderAndNoCommandThatItGave(t *testing.T) {
	q := &idle().server.queue
	var in, out []*command.Command
	for i := range 40 {
		for range i * 20 { // in the end more than a batch
			c := acquiring("T", "k")
			in = append(in, c)
			require.NoError(t, q.push(c, nil, nil))
		}
		before := q.waiting
		taken, more := q.take(nil)
		out = append(out, taken...)
		require.Equal(t, len(in) > len(out), more)
		require.Equal(t, len(in)-len(out), q.len())
		for _, slot := range before[:len(taken)] {
			require.Nil(t, slot, "what was given is not kept alive")
		}
	}
	out = append(out, q.drain(nil)...)
	require.Len(t, out, len(in))
	for i := range in {
		require.Same(t, in[i], out[i])
	}
	require.Zero(t, q.len())
}
