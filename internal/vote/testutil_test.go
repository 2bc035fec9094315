package vote_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// node is a node that answers nothing by itself. The test answers its last command.
type node struct {
	name    string
	refuses error // why it does not take commands that another one is behind, or any command
	any     bool
	*command.Command
}

func (n *node) Name() string { return n.name }

func (n *node) Submit(c, behind *command.Command) error {
	if n.refuses != nil && (n.any || behind != nil) {
		return n.refuses
	}
	n.Command = c
	if behind != nil {
		n.Command = behind
	}
	return nil
}

// inGroup runs f with a group of n nodes, in virtual time.
func inGroup(t *testing.T, n int, f func(t *testing.T, g *vote.Group, nodes []*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		g := &vote.Group{Clock: c, Timers: timer.New(c)}
		nodes := make([]*node, n)
		for i := range nodes {
			nodes[i] = &node{name: string(rune('a' + i))}
			g.Nodes = append(g.Nodes, nodes[i])
		}
		f(t, vote.NewGroup(g), nodes)
	})
}

// timeout is the time in which the answers of acquire count.
const timeout = time.Second

// acquire sends a round that acquires a name, by a rule.
func acquire(g *vote.Group, events *vote.Events, rule vote.Rule) *vote.Round {
	r, t := g.New(events, nil, []string{"name"}), &command.LockArgs{}
	t.Set(r.Names, command.NewToken(""))
	command.NewAcquire(&r.Request, t, time.Minute, time.Hour)
	r.Rule, r.Start = rule, g.Clock.Now()
	r.Arm(timeout)
	r.Send(nil).Settle()
	return r
}

var (
	granted = command.Reply{Outcome: command.Granted}
	refused = command.Reply{Outcome: command.Refused}
	failed  = command.Reply{Outcome: command.Failed, NotSent: true}
)
