package redlock

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// channelRights logs once for each node that its user may not announce releases, or not hear of them. It
// asks a node after its first vote, beside the locks. Servers before Redis 7 can't tell; there only a
// refused subscription is logged, by the node.
type channelRights struct {
	dispatcher *dispatcher
	nodes      []command.Node
	prefix     string // of all keys
	asked      []atomic.Bool
}

func newChannelRights(d *dispatcher, nodes []command.Node, prefix string) *channelRights {
	return &channelRights{dispatcher: d, nodes: nodes, prefix: prefix, asked: make([]atomic.Bool, len(nodes))}
}

// noteVote asks a node that has voted on an acquisition of the key, unless it was asked before. Another
// goroutine submits, because this one may be the node's.
func (c *channelRights) noteVote(node int, key string, rep command.Reply) {
	voted := rep.Outcome == command.Granted || rep.Outcome == command.Refused
	if c.dispatcher.logger == nil || !voted || c.asked[node].Load() || c.asked[node].Swap(true) {
		return
	}
	c.dispatcher.run(func() {
		ask, r := &command.Command{}, &command.Request{}
		command.NewChannelsPing(r, key)
		ask.Fill(r, node, c)
		command.Submit(c.nodes[node], ask)
	})
}

// channelEffects says what the lack of a right costs.
var channelEffects = []struct{ command, effect string }{
	{"PUBLISH", "waiters of other processes find releases by polls, within a second"},
	{"SUBSCRIBE", "waiters of this process poll, and may wait long beside processes with the right"},
}

// Answer receives a node's answer.
func (c *channelRights) Answer(ask *command.Command, rep command.Reply) {
	var missing *pool.ServerError
	if !errors.As(rep.Err, &missing) || missing.Code != command.NoChannels {
		return
	}
	var effects, grants []string
	for _, right := range channelEffects {
		if strings.Contains(missing.Text, right.command) {
			effects, grants = append(effects, right.effect), append(grants, "+"+strings.ToLower(right.command))
		}
	}
	c.dispatcher.warn("no right to announcements of releases", "node", c.nodes[ask.Node].Name(), "effect", strings.Join(effects, "; "),
		"grant", strings.Join(grants, " ")+" &"+command.FreePrefix+c.prefix+"*")
}
