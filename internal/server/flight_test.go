package server

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// commands returns commands that are told apart by their address.
func commands(n int) (all []*command.Command) {
	for range n {
		all = append(all, &command.Command{})
	}
	return all
}

// The slow model is a slice. Each byte of the input is a number of commands to push, or, from 128 on, to take.
func FuzzAFlightKeepsTheOrder(f *testing.F) {
	f.Add([]byte{1, 129, 129, 0, 64, 192, 1, 129})
	f.Add([]byte{63, 1, 1, 193, 127, 127, 255, 255, 3, 131})
	f.Fuzz(func(t *testing.T, steps []byte) {
		flight := newFlight()
		var model []*command.Command
		for _, step := range steps {
			if step < 128 {
				all := commands(int(step))
				flight.push(all)
				model = append(model, all...)
				continue
			}
			for range step - 127 {
				got := flight.next()
				if len(model) == 0 {
					require.Nil(t, got)
					break
				}
				require.Same(t, model[0], got)
				model = model[1:]
			}
		}
		for _, want := range model {
			require.Same(t, want, flight.next())
		}
		require.Nil(t, flight.next())
	})
}

// The race detector sees a command that is taken without the memory that was written before it was pushed.
func TestAFlightIsForAWriterAndAReaderAtTheSameTime(t *testing.T) {
	const many = 100_000
	flight := newFlight()
	var both sync.WaitGroup
	both.Go(func() {
		batch := 0
		for sent := 0; sent < many; {
			all := commands(min(batch, many-sent))
			for i, c := range all {
				c.Request = &command.Request{TTL: 1}
				c.Node = uint8((sent + i) % 64) //nolint:gosec // below 64
			}
			flight.push(all)
			sent += len(all)
			batch = (batch + 7) % 130
		}
	})
	both.Go(func() {
		for got := 0; got < many; {
			c := flight.next()
			if c == nil {
				continue
			}
			if c.Node != uint8(got%64) || c.TTL != 1 { //nolint:gosec // below 64
				t.Errorf("the command after %d others is another one", got)
				return
			}
			got++
		}
	})
	both.Wait()
}

// A flight that is empty again and again reuses its memory.
func TestAFlightThatIsEmptiedAllocatesNothing(t *testing.T) {
	flight := newFlight()
	all := commands(100)
	pass := func() {
		flight.push(all)
		for range all {
			flight.next()
		}
	}
	pass()
	pass()
	pass()
	require.Zero(t, testing.AllocsPerRun(100, pass))
}
