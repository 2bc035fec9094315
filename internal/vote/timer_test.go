package vote_test

import (
	"testing"
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
	fired chan struct{}
}

func newOwner() *owner { return &owner{fired: make(chan struct{}, 1)} }

func (o *owner) Fire(*timer.Timer) { o.fired <- struct{}{} }

// set sets the timer for the owner.
func (o *owner) set(g *vote.Group) { g.Timers.Set(&o.timer, g.Clock.Now().Add(time.Minute), o) }

// lend makes a round of acquires whose vote the owner's timer ends.
func (o *owner) lend(g *vote.Group) *vote.Round {
	r := acquire(g, &vote.Events{}, vote.Earliest)
	r.ClearTimer()
	r.Timer = &o.timer
	r.Arm(timeout)
	return r
}

// requireSet requires that the timer is as the owner has just set it.
func (o *owner) requireSet(t *testing.T) {
	t.Helper()
	began := time.Now()
	<-o.fired
	require.Equal(t, time.Minute, time.Since(began))
}

// Otherwise nothing would end a lock whose owner is faster than the report of the decision.
func TestTheTimerOfAVoteThatIsWonIsItsOwners(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		o := newOwner()
		g.OnAnswer = func(r *vote.Round, _ int, _ command.Reply, _ time.Duration, _ bool) {
			if r.Won() {
				o.set(g)
			}
		}
		o.lend(g)
		nodes[0].Answer(granted)
		nodes[1].Answer(granted)
		o.requireSet(t)
		o.lend(g)
		nodes[0].Answer(refused)
		nodes[1].Answer(refused)
		require.Zero(t, g.Timers.Len(), "a vote that is lost leaves nothing")
	})
}

// Otherwise nothing would end a lock that is won while a tie is noticed.
func TestATieThatIsDecidedMeanwhileLeavesTheTimerToItsOwner(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		o := newOwner()
		c := &interruptedClock{Clock: g.Clock}
		g.Clock = c
		o.lend(g)
		nodes[0].Answer(granted)
		c.after, c.interrupt = 2, func() { // the reading after that of the round trip
			nodes[2].Answer(granted)
			o.set(g)
		}
		nodes[1].Answer(refused)
		require.Nil(t, c.interrupt)
		o.requireSet(t)
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

// Nobody waits for an answer after the timeout, and the request would delay live commands on its connection.
func TestARequestWithoutANotAfterIsNotSentAfterTheTimeout(t *testing.T) {
	inGroup(t, 1, func(t *testing.T, g *vote.Group, _ []*node) {
		r := g.New(&vote.Events{}, nil, nil)
		r.Start = g.Clock.Now()
		r.Arm(timeout)
		require.Equal(t, r.Start.Add(timeout), r.Request.NotAfter)
		r.Request.NotAfter = r.Start.Add(time.Hour)
		r.Arm(timeout)
		require.Equal(t, r.Start.Add(time.Hour), r.Request.NotAfter)
		r.ClearTimer()
	})
}
