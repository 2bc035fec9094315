package vote_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// owner has a timer that it lends to a round.
type owner struct {
	timer timer.Timer
	fired atomic.Int32
}

func (o *owner) Fire(*timer.Timer) { o.fired.Add(1) }

// lend makes a round of acquires whose vote the owner's timer ends.
func (o *owner) lend(g *vote.Group) *vote.Round {
	r := acquire(g, &vote.Events{}, vote.Earliest)
	r.ClearTimer()
	r.Timer = &o.timer
	r.Arm(timeout)
	return r
}

// requireKept requires that the owner's timer is as the owner has set it, for an hour later.
func (o *owner) requireKept(t *testing.T, g *vote.Group) {
	t.Helper()
	require.Equal(t, 1, g.Timers.Len())
	time.Sleep(time.Hour - time.Second)
	synctest.Wait()
	require.Zero(t, o.fired.Load())
	time.Sleep(time.Second)
	synctest.Wait()
	require.EqualValues(t, 1, o.fired.Load())
}

// Otherwise nothing would end a lock whose owner is faster than the report of the decision.
func TestTheTimerOfAVoteThatIsWonIsItsOwners(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		var o owner
		g.OnAnswer = func(r *vote.Round, _ int, _ command.Reply, _ time.Duration, _ bool) {
			if r.Won() {
				g.Timers.Set(&o.timer, g.Clock.Now().Add(time.Hour), &o)
			}
		}
		o.lend(g)
		nodes[0].Answer(granted)
		nodes[1].Answer(granted)
		o.requireKept(t, g)
		o.lend(g)
		nodes[0].Answer(refused)
		nodes[1].Answer(refused)
		require.Zero(t, g.Timers.Len(), "a vote that is lost leaves nothing")
	})
}

// Otherwise nothing would end a lock that is won while a tie is noticed.
func TestATieThatIsDecidedMeanwhileLeavesTheTimerToItsOwner(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		var o owner
		c := &interruptedClock{Clock: g.Clock}
		g.Clock = c
		o.lend(g)
		nodes[0].Answer(granted)
		c.after, c.interrupt = 2, func() { // the reading after that of the round trip
			nodes[2].Answer(granted)
			g.Timers.Set(&o.timer, g.Clock.Now().Add(time.Hour), &o)
		}
		nodes[1].Answer(refused)
		require.Nil(t, c.interrupt)
		o.requireKept(t, g)
	})
}

// interruptedClock calls a function at one of its next readings.
type interruptedClock struct {
	clock.Clock
	after     int
	interrupt func()
}

func (c *interruptedClock) Now() clock.Instant {
	if c.after--; c.after == 0 {
		f := c.interrupt
		c.interrupt = nil
		f()
	}
	return c.Clock.Now()
}
