package waiting

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/verdict"
)

// polled is a node that keeps the commands of a poll. The test answers them.
type polled struct {
	command.Node
	commands []*command.Command // one for each name
}

func (p *polled) Submit(c, _ *command.Command) error {
	p.commands = append(p.commands, c)
	return nil
}

// failing is a contender with a node that failed in its last attempt.
type failing struct {
	*contender
	failed []bool
}

func (f failing) Failed() []bool { return f.failed }

// inPoll runs f in virtual time with the poll of a waiter for the names a and b. failed are the nodes
// that failed in the last attempt.
func inPoll(t *testing.T, failed []bool, f func(t *testing.T, p *poll, nodes []*polled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, voters := make([]*polled, 3), make([]command.Node, 3)
		for i := range nodes {
			nodes[i] = &polled{}
			voters[i] = nodes[i]
		}
		c := clock.Runtime()
		table := NewTable(Config{
			Nodes: voters, Clock: c, Timers: timer.New(c), Backoff: Backoff{Min: time.Millisecond, Max: time.Second},
			PollTimeout: time.Second, OutageLeft: func(error) time.Duration { return time.Minute },
		})
		w := enter(table, "a", "b")
		w.contender = failing{w, failed}
		newPoll(&w.Waiter, failed).begin()
		f(t, w.poll, nodes)
		w.leave()
	})
}

// heldFor is the answer about a name whose key expires after left.
func heldFor(left time.Duration) command.Reply {
	return command.Reply{Outcome: command.Refused, Left: left}
}

var (
	free    = command.Reply{Outcome: command.Granted}
	forever = heldFor(-1)
	down    = command.Reply{Outcome: command.Failed, Err: errors.New("down")}
)

// Otherwise a waiter would attempt in vain when the first name is free, or would not attempt when both
// are.
func TestANodeIsBlockedUntilBothNamesAreFree(t *testing.T) {
	for what, c := range map[string]struct {
		first, second command.Reply
		left          time.Duration // 0: not blocked
	}{
		"the first is held longer":    {heldFor(time.Minute), heldFor(time.Second), time.Minute + ExpiryMargin},
		"the second is held longer":   {heldFor(time.Second), heldFor(time.Minute), time.Minute + ExpiryMargin},
		"the first is free":           {free, heldFor(time.Second), time.Second + ExpiryMargin},
		"the second is free":          {heldFor(time.Second), free, time.Second + ExpiryMargin},
		"the first never expires":     {forever, heldFor(time.Second), verdict.NoExpiry},
		"the second never expires":    {heldFor(time.Second), forever, verdict.NoExpiry},
		"both are free":               {free, free, 0},
		"it failed, and did not then": {down, down, 0},
	} {
		inPoll(t, make([]bool, 3), func(t *testing.T, p *poll, nodes []*polled) {
			now := p.waiter.table.now()
			for _, n := range nodes {
				n.commands[0].Answer(c.first)
				n.commands[1].Answer(c.second)
			}
			want := clock.Instant(0)
			switch c.left {
			case 0:
			case verdict.NoExpiry:
				want = never
			default:
				want = now.Add(c.left)
			}
			blocked := p.blocked
			p.end()
			for _, each := range [][]clock.Instant{blocked, p.waiter.contender.(failing).blocked} {
				require.Equal(t, []clock.Instant{want, want, want}, each, what)
			}
			until, canSucceed := freeAt(blocked)
			require.Equal(t, c.left == 0, canSucceed, what)
			require.Equal(t, want, until, what)
		})
	}
}

// A node that failed in the last attempt too would make the next one fail. One that fails only now
// must be found out by an attempt, whose error then says so.
func TestOnlyANodeThatFailedBeforeIsBlockedByAFailure(t *testing.T) {
	inPoll(t, []bool{false, true, true}, func(t *testing.T, p *poll, nodes []*polled) {
		now := p.waiter.table.now()
		for _, n := range nodes {
			n.commands[0].Answer(down)
			n.commands[1].Answer(down)
		}
		until := now.Add(time.Minute)
		p.end()
		require.Equal(t, []clock.Instant{0, until, until}, p.waiter.contender.(failing).blocked)
	})
}

// Otherwise a waiter would attempt although nodes have not said whether the second name is free.
func TestANodeHasAnsweredAPollWhenItHasAnsweredForEachName(t *testing.T) {
	inPoll(t, make([]bool, 3), func(t *testing.T, p *poll, nodes []*polled) {
		w := &p.waiter.contender.(failing).Waiter
		answered := func(name int, n *polled) bool {
			n.commands[name].Answer(free)
			w.table.mu.Lock()
			defer w.table.mu.Unlock()
			return w.woken == byAnswer
		}
		require.False(t, answered(0, nodes[0]))
		require.False(t, answered(0, nodes[1]))
		require.False(t, answered(0, nodes[2]))
		require.False(t, answered(1, nodes[0]))
		require.True(t, answered(1, nodes[1]), "the third node alone cannot block")
	})
}

// An answer after the poll's time says nothing about now.
func TestAPollIsNotSentAfterItsTime(t *testing.T) {
	inPoll(t, make([]bool, 3), func(t *testing.T, p *poll, nodes []*polled) {
		for _, n := range nodes {
			for _, c := range n.commands {
				require.Equal(t, p.waiter.table.now().Add(time.Second), c.NotAfter)
			}
		}
	})
}

// An announcement interrupts a poll. Its last answers must not end the waiter's next park.
func TestTheAnswersToAnInterruptedPollWakeNobody(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		inPoll(t, make([]bool, 3), func(t *testing.T, p *poll, nodes []*polled) {
			w := p.waiter
			if interrupted {
				clearSignals(w) // an attempt follows
			}
			for _, n := range nodes {
				for _, c := range n.commands {
					p.Answer(c, heldFor(time.Hour))
				}
			}
			require.Equal(t, interrupted, w.woken == none)
		})
	}
}
