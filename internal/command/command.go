package command

import "sync/atomic"

// Answerer receives the answer to a command.
type Answerer interface {
	// Answer is called exactly once for each submitted command, without any mutex: on a goroutine of the
	// node or, if the node does not take the command, by the submitter. It must not block.
	Answer(c *Command, r Reply)
}

// Command is one request on its way to one node. It must not be copied. It is submitted once.
type Command struct {
	*Request
	// To receives the answer. It is nil if the answer is not needed.
	To Answerer
	// Node is the index of the node in the coordinator's list.
	Node uint8
	// Retries counts how often the node has resent the undo, up to 255. Only the node uses it.
	Retries uint8
	// Redirects counts how often a shard of a Redis Cluster has redirected the command. Only the node
	// uses it.
	Redirects uint8
	// Merged is how many commands one call executes and one reply answers. It is set on the first of
	// them, and 0 for a command that is sent by itself. Only the node uses it.
	Merged uint8

	state atomic.Uint32
}

// Fill makes c a command of r to the node of an index, at most 63, whose answer goes to to.
func (c *Command) Fill(r *Request, node int, to Answerer) {
	c.Request, c.Node, c.To = r, uint8(node), to //nolint:gosec // a vote has at most 64 nodes
}

// The bits of a command's state. They decide without a mutex which comes first: the writer that
// sends the command, or the coordinator that cancels it.
const (
	sent      = 1 << iota // bytes may have left the process
	cancelled             // given up: it may not be sent, or not again
	useEval               // a script goes by its text: the node didn't know the hash
	answered              // Answer was called
	resent                // sent once before, and perhaps executed then
	asking                // see SetAsking
)

// Cancel gives the command up before its undo is queued. It returns true if no byte of the
// command has left the process or ever will, so that there is nothing to undo on that node.
// Otherwise the command is not sent a second time either: an undo that is queued now stays behind
// it (docs/dev/hazards.md H28).
func (c *Command) Cancel() (unsent bool) {
	return c.state.Or(cancelled)&sent == 0
}

// MarkSent claims the right to write the command. The node calls it right before writing. If it
// returns false the command was cancelled, and the node must not write it.
func (c *Command) MarkSent() bool { return c.changeState(sent, 0) }

// Cancelled reports whether the command must not be sent, or not again.
func (c *Command) Cancelled() bool { return c.state.Load()&cancelled != 0 }

// UnmarkForEval reverts MarkSent for a command that the node surely did not execute: a script
// answered by NOSCRIPT, which is then sent by its text. It returns false if the command was
// cancelled meanwhile. The command must not be sent again then.
func (c *Command) UnmarkForEval() bool { return c.changeState(useEval, sent) }

// UnmarkForRedirect reverts MarkSent for a command that a shard of a Redis Cluster did not
// execute because another shard has the slot. The command goes there unchanged. It returns false
// as UnmarkForEval does.
func (c *Command) UnmarkForRedirect() bool { return c.changeState(0, sent) }

// changeState sets and clears bits. It returns false if the command was cancelled before.
func (c *Command) changeState(set, reset uint32) bool {
	for {
		old := c.state.Load()
		if old&cancelled != 0 {
			return false
		}
		if c.state.CompareAndSwap(old, old&^reset|set) {
			return true
		}
	}
}

// MarkResend prepares an undo that was sent, and may not have been executed, to be written on
// another connection.
func (c *Command) MarkResend() {
	c.state.Or(resent) // first: no goroutine may take it for a command that never left
	c.state.And(^uint32(sent))
}

// WasResent reports whether an earlier connection may have carried the command too.
func (c *Command) WasResent() bool { return c.state.Load()&resent != 0 }

// SetAsking sets whether the present shard of a Redis Cluster accepts the command only behind ASKING.
// Only the node calls it.
func (c *Command) SetAsking(on bool) {
	if on {
		c.state.Or(asking)
		return
	}
	c.state.And(^uint32(asking))
}

// Asking returns what SetAsking set.
func (c *Command) Asking() bool { return c.state.Load()&asking != 0 }

// UsesEval reports whether a script is sent by its text.
func (c *Command) UsesEval() bool { return c.state.Load()&useEval != 0 }

// Fail ends a command that will not be written any more, for the reason err. The outcome is
// Failed with NotSent, or Unknown if an earlier connection may have carried the command to the
// server.
func (c *Command) Fail(err error) {
	if c.Cancel() && c.state.Load()&resent == 0 {
		c.Answer(Reply{Outcome: Failed, NotSent: true, Err: err})
		return
	}
	c.Answer(Reply{Outcome: Unknown, Err: err})
}

// Answer ends the command. A second answer is a defect of the node. It is dropped, because a vote
// counts once (docs/dev/hazards.md H9).
func (c *Command) Answer(r Reply) {
	if c.state.Or(answered)&answered == 0 && c.To != nil {
		c.To.Answer(c, r)
	}
}
