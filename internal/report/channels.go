package report

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// Channels logs once for each node that its user may not announce releases, hear of them, or count who does. It asks a
// node after its first vote, beside the locks. Servers before Redis 7 can't tell; there only a refused subscription is logged, by
// the node. Its methods are safe for concurrent use.
type Channels struct {
	log    *Reporter
	nodes  []command.Node
	prefix string // of all keys
	asked  []atomic.Bool
}

// NewChannels returns the rights of these nodes, which were not asked.
func NewChannels(log *Reporter, nodes []command.Node, prefix string) *Channels {
	return &Channels{log: log, nodes: nodes, prefix: prefix, asked: make([]atomic.Bool, len(nodes))}
}

// Voted asks a node that has voted on an acquisition of the key, unless it was asked before. Another goroutine submits,
// because this one may be the node's.
func (c *Channels) Voted(node int, key string) {
	if c.asked[node].Load() || c.asked[node].Swap(true) {
		return
	}
	c.log.Run(func() {
		ask, r := &command.Command{}, &command.Request{}
		command.NewChannelsPing(r, key)
		ask.Fill(r, node, c)
		command.Submit(c.nodes[node], ask)
	})
}

// effects says what the lack of a right costs.
var effects = []struct{ command, grant, effect string }{
	{"PUBLISH", "+publish", "waiters of other processes find releases by polls, within a second"},
	{"SUBSCRIBE", "+subscribe", "waiters of this process poll, and may wait long beside processes with the right"},
	{"PUBSUB", "+pubsub|numsub", "this process does not count the waiters of others, which may wait longer"},
}

// Answer receives a node's answer.
func (c *Channels) Answer(ask *command.Command, rep command.Reply) {
	var missing *resp.ServerError
	if !errors.As(rep.Err, &missing) || missing.Code != command.NoChannels {
		return
	}
	var costs, grants []string
	for _, right := range effects {
		if strings.Contains(missing.Text, right.command) {
			costs, grants = append(costs, right.effect), append(grants, right.grant)
		}
	}
	c.log.Warn("no right to announcements of releases", "node", c.nodes[ask.Node].Name(), "effect", strings.Join(costs, "; "),
		"grant", strings.Join(grants, " ")+" &"+command.FreePrefix+c.prefix+"*")
}
