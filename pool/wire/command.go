package wire

import "sync/atomic"

// Answerer is told how a command ended.
type Answerer interface {
	// Answer is called exactly once for each command that was submitted: on a
	// goroutine of the node's, or before Submit returns. It must not block.
	Answer(c *Command, r Reply)
}

// Command is one request on its way to one node. It must not be copied, and is
// submitted once.
type Command struct {
	*Request
	// Node is the node's place in the coordinator's list.
	Node int
	// To is told the answer; nil when nobody wants to know.
	To Answerer
	// Retries counts how often a node has sent its undo anew, up to 255; for the node's own use.
	Retries uint8
	// Redirects counts how often a member of a Redis Cluster has sent it on to another one, and
	// Asking tells that the present one takes it by way of exception; for the node's own use.
	Redirects uint8
	Asking    bool
	// Submitter is the kind of goroutine that submits the command.
	Submitter Submitter

	state atomic.Uint32
}

// Submitter is a kind of goroutine that submits commands.
type Submitter uint8

const (
	// ByCaller is a goroutine of the user's in a method of the library. It may write to the
	// socket itself, and let other goroutines run first.
	ByCaller Submitter = iota
	// ByLibrary is a goroutine of the library, on which other locks depend: timers, a
	// connection's reader, the undos. It leaves the command to the connection's writer.
	ByLibrary
)

// The bits of a command's state. They settle who comes first, without a lock:
// the writer that sends it, or the coordinator that gives it up.
const (
	sent      = 1 << iota // bytes may have left the process
	cancelled             // given up: it may not be sent, or not again
	useEval               // a script goes by its text: the node didn't know the hash
	answered              // Answer was called
	resent                // sent once before, and perhaps executed then
)

// Cancel gives the command up before its undo is queued. It returns true when
// no byte of it has left the process, nor ever will: then there is nothing to
// undo on that node. Otherwise the command is not sent a second time either,
// so that an undo queued now stays behind it (docs/hazards.md H28).
func (c *Command) Cancel() (unsent bool) {
	return c.state.Or(cancelled)&sent == 0
}

// MarkSent claims the right to write the command; the node calls it right before
// writing. False means that it was given up and must be dropped unsent.
func (c *Command) MarkSent() bool {
	for {
		old := c.state.Load()
		if old&cancelled != 0 {
			return false
		}
		if c.state.CompareAndSwap(old, old|sent) {
			return true
		}
	}
}

// Cancelled reports whether the command may not be sent, or not again.
func (c *Command) Cancelled() bool { return c.state.Load()&cancelled != 0 }

// UnmarkForEval takes back Send for a command of which the node knows that it executed
// nothing: a script answered by NOSCRIPT, to be sent again by its text. False
// when it was given up meanwhile: then it must not be sent again.
func (c *Command) UnmarkForEval() bool { return c.unmark(useEval) }

// UnmarkForRedirect takes back Send for a command that a member of a Redis Cluster did not execute,
// because another one has the slot: it goes there as it is. False as for UnmarkForEval.
func (c *Command) UnmarkForRedirect() bool { return c.unmark(0) }

func (c *Command) unmark(as uint32) bool {
	for {
		old := c.state.Load()
		if old&cancelled != 0 {
			return false
		}
		if c.state.CompareAndSwap(old, old&^sent|as) {
			return true
		}
	}
}

// MarkResend readies an undo that was sent, and may not have been executed, to be
// written on another connection.
func (c *Command) MarkResend() {
	c.state.Or(resent) // first: nobody may take it for one that never left
	c.state.And(^uint32(sent))
}

// WasResent reports whether an earlier connection may have carried the command as well.
func (c *Command) WasResent() bool { return c.state.Load()&resent != 0 }

// UsesEval reports whether a script goes by its text.
func (c *Command) UsesEval() bool { return c.state.Load()&useEval != 0 }

// Fail ends a command that is not written any more, for the reason err: as
// Failed and NotSent, but as Unknown where an earlier connection may have carried
// it to the server.
func (c *Command) Fail(err error) {
	if c.Cancel() && c.state.Load()&resent == 0 {
		c.Answer(Reply{Outcome: Failed, NotSent: true, Err: err})
		return
	}
	c.Answer(Reply{Outcome: Unknown, Err: err})
}

// Answer ends the command. A second answer is a defect of the node, and is
// dropped: a vote counts once (docs/hazards.md H9).
func (c *Command) Answer(r Reply) {
	if c.state.Or(answered)&answered == 0 && c.To != nil {
		c.To.Answer(c, r)
	}
}
