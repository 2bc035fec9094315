package pool

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A cancelled command does not wait for the end of a dial that hangs. Otherwise there would be
// thousands of them in the seconds that a dial may take. Other commands wait.
func TestWhatWasGivenUpDoesNotWaitForADial(t *testing.T) {
	inGatedBubble(t, func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error) {
		undo := releasing("A", "j").Within(n, time.Millisecond).On(n)
		late := acquiring("A", longTTL, "late").Within(n, time.Millisecond).On(n)
		var kept []*call
		for i := range 100 * minPrune {
			c := acquiring("A", longTTL, "k").On(n)
			c.Cancel()
			if i%minPrune == 0 {
				kept = append(kept, acquiring("B", longTTL, strconv.Itoa(len(kept))).On(n))
			}
			require.LessOrEqual(t, n.Stats().Queued, 2*minPrune+2*len(kept))
			time.Sleep(time.Millisecond / 2)
		}
		require.ErrorIs(t, late.Reply(t).Err, command.ErrExpired)
		require.True(t, undo.Pending(), "an undo is never too late")
		gate <- nil
		for _, c := range kept {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.Equal(t, command.Refused, undo.Reply(t).Outcome)
		synctest.Wait()
		var order []string
		for _, c := range m.Log() {
			if c.Name == "SET" {
				order = append(order, c.Args[0])
			}
		}
		require.Len(t, order, len(kept))
		for i, key := range order {
			require.Equal(t, strconv.Itoa(i), key)
		}
	})
}

// The same for a write that the peer does not accept.
func TestWhatWasGivenUpDoesNotWaitForABlockedWrite(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		stuck := stuff(n)
		kept := pinging().On(n)
		for range 10 * maxBatch {
			c := acquiring("A", longTTL, "k").On(n)
			c.Cancel()
			require.LessOrEqual(t, n.Stats().Queued, maxBatch+2*minPrune)
		}
		m.Unfreeze()
		stuck.Reply(t)
		require.Equal(t, command.Granted, kept.Reply(t).Outcome)
		synctest.Wait()
		require.NotContains(t, m.Keys(), "k")
	})
}

// countedReads counts how often a clock is read: each prune reads the commands' clock once.
type countedReads struct {
	clock.Clock
	reads atomic.Int64
}

func (c *countedReads) Now() clock.Instant {
	c.reads.Add(1)
	return c.Clock.Now()
}

// A prune goes through the whole queue, so as many commands must have been submitted since the last
// one.
func TestALongQueueIsSweptSeldom(t *testing.T) {
	inGatedBubble(t, func(t *testing.T, m *fakeredis.Master, n *Node, gate chan<- error) {
		c := &countedReads{Clock: n.cfg.Clock}
		n.parts.Join(&command.Membership{Clock: c})
		submit := func(many int) (calls []*call, sweeps int64) {
			before := c.reads.Load()
			for range many {
				calls = append(calls, pinging())
				one := calls[len(calls)-1]
				one.Req.NotAfter = c.Clock.Now().Add(time.Minute)
				one.On(n)
			}
			return calls, c.reads.Load() - before
		}
		const many = 100 * minPrune
		calls, sweeps := submit(many)
		require.LessOrEqual(t, sweeps, int64(10), "of %d, which doubled six times", many)
		require.Equal(t, many, n.Stats().Queued)
		gate <- nil
		for _, one := range calls {
			require.Equal(t, command.Granted, one.Reply(t).Outcome)
		}
		only(t, m).Drop()
		synctest.Wait()
		_, sweeps = submit(2 * minPrune)
		require.Positive(t, sweeps, "the next dial hangs, and the queue is short again")
		gate <- nil
	})
}

// A queue that was long, and was written since, is pruned like any other. This also holds if undos
// made it longer than its limit.
func TestAQueueThatWasLongIsSweptAsAnyOther(t *testing.T) {
	const room = 8 * maxBatch
	inBubble(t, func(c *Config) { c.Queue = room }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		stuck := stuff(n)
		var calls []*call
		for range 2 * room {
			calls = append(calls, releasing("A", "k").Within(n, longTTL).On(n))
		}
		m.Unfreeze()
		stuck.Reply(t)
		for _, c := range calls {
			c.Reply(t)
		}
		synctest.Wait()
		m.Freeze()
		stuck = stuff(n)
		for range 2 * room {
			c := acquiring("A", longTTL, "k").On(n)
			c.Cancel()
			require.LessOrEqual(t, n.Stats().Queued, 2*maxBatch+1)
		}
		m.Unfreeze()
		stuck.Reply(t)
	})
}

// A queue was once full of live commands. When they are cancelled, it has room again.
func TestAFullQueueIsSweptAgain(t *testing.T) {
	const room = 2 * minPrune
	inBubble(t, func(c *Config) {
		c.Queue = room
		c.Dial = (&gated{gate: make(chan error)}).Dial
	}, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		var calls []*call
		for range room {
			calls = append(calls, acquiring("A", longTTL, "k").On(n))
		}
		for _, c := range calls {
			require.True(t, c.Pending())
			c.Cancel()
		}
		refused := 0
		for c := pinging().On(n); !c.Pending(); c = pinging().On(n) {
			require.ErrorIs(t, c.Reply(t).Err, ErrQueueFull)
			refused++
			require.LessOrEqual(t, refused, room)
		}
		require.Equal(t, 1, n.Stats().Queued)
	})
}

// A node takes a release and the acquire behind it, or neither: the submitter sends another release then.
func TestAPairIsTakenWholeOrNotAtAll(t *testing.T) {
	inBubble(t, func(c *Config) { c.Queue = 1 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.Freeze()
		stuck := stuff(n)
		filler := pinging().On(n)
		release, acquire := releasing("A", "k"), acquiring("B", longTTL, "k")
		require.ErrorIs(t, voterOf(n).Submit(&release.Command, &acquire.Command), ErrQueueFull)
		require.Equal(t, 1, n.Stats().Queued, "the filler")
		require.NoError(t, voterOf(n).Submit(&release.Command, nil))
		m.Unfreeze()
		stuck.Reply(t)
		require.Equal(t, command.Granted, filler.Reply(t).Outcome)
		require.Equal(t, command.Refused, release.Reply(t).Outcome)
		require.True(t, acquire.Pending())
	})
}
