package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

func TestTheQueueKeepsItsOrderWhileItGrowsAndShrinks(t *testing.T) {
	var r ring
	var in, out int
	commands := map[*command.Command]int{}
	push := func(n int) {
		for range n {
			c := &command.Command{}
			commands[c] = in
			in++
			r.push(c)
		}
	}
	pop := func(n int) {
		for range n {
			first := r.peek()
			require.Same(t, first, r.pop())
			require.Equal(t, out, commands[first])
			out++
		}
	}
	for i := range 40 {
		push(i)
		pop(i / 2)
		require.Equal(t, in-out, r.len())
	}
	for _, c := range r.popAll(nil) {
		require.Equal(t, out, commands[c])
		out++
	}
	require.Equal(t, in, out)
	require.Zero(t, r.len())
	for _, slot := range r.slots {
		require.Nil(t, slot, "what was answered is not kept alive")
	}
}
