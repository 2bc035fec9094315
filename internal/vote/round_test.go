package vote_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// events records the calls of an owner's functions.
type events struct {
	mu   sync.Mutex // guards list
	list []string
}

func (e *events) add(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, what)
}

func (e *events) events() *vote.Events {
	return &vote.Events{
		OnReply: func(_ *vote.Round, _ int, rep command.Reply) command.Reply {
			e.add("reply")
			return rep
		},
		OnDecision: func(*vote.Round) { e.add("decision") },
		OnComplete: func(*vote.Round) { e.add("complete") },
	}
}

// Each event is reported once and in this order, also if a node answers after the vote.
func TestEventsComeOnceAndInOrder(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		var e events
		r := acquire(g, e.events(), vote.Earliest)
		nodes[0].Answer(granted)
		time.Sleep(2 * timeout)
		synctest.Wait()
		nodes[1].Answer(granted)
		nodes[2].Answer(granted)
		nodes[2].Answer(granted) // a second answer is ignored
		require.Equal(t, []string{"reply", "decision", "reply", "reply", "complete"}, e.list)
		require.True(t, r.Lost())
		require.Len(t, r.Woken(), 1)
		require.Zero(t, g.Timers.Len())
	})
}

// OnReply turns an answer into another vote.
func TestTheReplyThatCountsIsThatOfTheKind(t *testing.T) {
	inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{OnReply: func(_ *vote.Round, node int, rep command.Reply) command.Reply {
			require.Zero(t, node)
			require.Equal(t, command.Granted, rep.Outcome)
			return refused
		}}, vote.Earliest)
		nodes[0].Answer(granted)
		r.View(func(s *vote.Ballots) { require.True(t, s.RefusedByQuorum()) })
	})
}

// A skipped node gets no command, and a round behind another one is submitted to it nevertheless.
func TestARoundBehindAnotherIsSubmittedToEveryNode(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		behind := g.New(&vote.Events{}, nil, nil)
		command.NewPing(&behind.Request)
		behind.Start = g.Clock.Now()
		behind.Arm(timeout)
		r := g.New(&vote.Events{}, nil, nil)
		command.NewPing(&r.Request)
		r.Start = g.Clock.Now()
		r.Arm(timeout)
		r.SendBefore(behind, nil, func(node int) (command.Reply, bool) { return failed, node == 1 }).Settle()
		for _, n := range nodes {
			require.Same(t, &behind.Request, n.Request, "the last command")
			n.Answer(granted)
		}
		require.True(t, behind.Won())
		require.False(t, r.Decided())
		r.View(func(s *vote.Ballots) { require.True(t, s.ByNode[1].Replied) })
		r.ClearTimer()
		require.Zero(t, g.Timers.Len())
	})
}

// Otherwise a caller that holds a mutex would wait for itself in an event.
func TestSendCallsNoEvent(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		var e events
		r := g.New(e.events(), nil, nil)
		command.NewPing(&r.Request)
		r.Start = g.Clock.Now()
		r.Arm(timeout)
		nodes[1].refuses, nodes[1].any = errors.New("full"), true
		unsent := r.Send(func(node int) (command.Reply, bool) { return failed, node == 0 })
		require.Empty(t, e.list)
		require.False(t, r.Decided())
		unsent.Settle()
		require.True(t, r.Lost())
		require.Equal(t, []string{"reply", "reply", "decision"}, e.list)
		r.View(func(s *vote.Ballots) {
			require.Equal(t, nodes[1].refuses, s.ByNode[1].Err)
			require.True(t, s.ByNode[1].NotSent)
		})
	})
}

// Otherwise no process would learn of a release whose next holder has no vote there.
func TestANodeThatDoesNotTakeTheAcquireGetsAnotherRelease(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r, behind, alone := g.New(&vote.Events{}, nil, nil), g.New(&vote.Events{}, nil, nil), &command.Request{}
		command.NewPing(alone)
		nodes[0].refuses = errors.New("full")
		for _, x := range []*vote.Round{r, behind} {
			command.NewPing(&x.Request)
			x.Start = g.Clock.Now()
			x.Arm(timeout)
		}
		r.SendBefore(behind, alone, nil).Settle()
		require.Same(t, alone, nodes[0].Request)
		for _, n := range nodes {
			n.Answer(granted)
		}
		require.True(t, behind.Won())
		behind.View(func(s *vote.Ballots) { require.Equal(t, nodes[0].refuses, s.ByNode[0].Err) })
		r.View(func(s *vote.Ballots) { require.Equal(t, command.Granted, s.ByNode[0].Last) })
		r.ClearTimer()
	})
}

func TestWaitEndsWithTheDecisionOrItsCaller(t *testing.T) {
	inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		done := make(chan struct{})
		close(done)
		require.False(t, r.Wait(done))
		go func() {
			time.Sleep(time.Millisecond)
			nodes[0].Answer(granted)
		}()
		require.True(t, r.Wait(nil))
		require.True(t, r.Wait(done))
	})
}

// An acquisition that was dropped too early could not be cancelled on the node that is silent.
func TestANodeThatOnlyTimedOutHasNotAnswered(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		nodes[0].Answer(granted)
		nodes[1].Answer(failed)
		time.Sleep(2 * timeout)
		synctest.Wait()
		_, all := r.EmptyNodes()
		require.False(t, all)
	})
}

// A node may hold keys of an acquire unless it refused or was never sent the command.
func TestNodesThatHoldNoKeysAreKnownOnceAllHaveAnswered(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		nodes[0].Answer(granted)
		nodes[1].Answer(refused)
		_, all := r.EmptyNodes()
		require.False(t, all)
		require.False(t, r.LeftNothing(0))
		require.True(t, r.LeftNothing(1))
		require.True(t, nodes[2].MarkSent())
		require.False(t, r.LeftNothing(2), "it was sent and may be executed")
		nodes[2].Answer(command.Reply{Outcome: command.Unknown})
		empty, all := r.EmptyNodes()
		require.True(t, all)
		require.Equal(t, quorum.Nodes(0).With(1), empty)
	})
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		require.True(t, r.LeftNothing(0), "it was cancelled unsent")
		require.False(t, nodes[0].MarkSent())
		for _, n := range nodes {
			n.Answer(granted)
		}
		empty, all := r.EmptyNodes()
		require.True(t, all)
		require.Zero(t, empty)
	})
}
