package pool

import (
	"fmt"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// submit hands a command to the master of its slot.
func (cl *cluster) submit(c *wire.Command) {
	switch {
	case c.Guarded || c.Op == wire.VerifyMarker || c.Op == wire.Admit:
		refuse(c, errUnguarded)
		return
	case c.Op.Creates():
		c.To = &acquireTracker{cluster: cl, to: c.To}
	}
	cl.dispatch(c)
}

var errUnguarded = fmt.Errorf("pool: %w: a Redis Cluster can't be under the restart guard", wire.ErrUnfit)

// resend routes a command that was taken out of a queue, on a goroutine of the node's own.
func (cl *cluster) resend(c *wire.Command) {
	c.Submitter = wire.ByLibrary
	cl.dispatch(c)
}

// dispatch routes a command that is nowhere: it was just submitted, or taken out of a queue.
func (cl *cluster) dispatch(c *wire.Command) {
	m, err := cl.route(c)
	switch {
	case err != nil:
		c.Fail(err) // not refused: an earlier connection may have carried it
	case m == nil: // it waits
	case len(c.Keys) == 0:
		cl.pingAll(c)
	default:
		m.node.pipelineOf(c).submit(c, nil)
	}
}

// submitBoth is Node.SubmitBoth: the two go out in one flush where one lane serves both.
func (cl *cluster) submitBoth(first, second *wire.Command) {
	cl.mu.Lock()
	one, two := cl.targetOf(first), cl.targetOf(second)
	together := cl.hasTopology && !cl.closed && one == two && second.Op.Creates() && !second.Guarded
	if together {
		cl.pendingAcquires[second.Token] = two
	}
	cl.mu.Unlock()
	if !together {
		cl.submit(first)
		cl.submit(second)
		return
	}
	second.To = &acquireTracker{cluster: cl, to: second.To}
	two.node.submitBoth(first, second)
}

// route says to whom a command goes. Neither a member nor an error: it waits for the map.
func (cl *cluster) route(c *wire.Command) (*shard, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	undoes := c.Op.Undoes()
	switch {
	case cl.closed:
		return nil, ErrClosed
	case cl.hasTopology:
	case cl.down != nil && !undoes:
		return nil, cl.down
	case len(cl.parked) >= cl.node.cfg.Queue && !undoes:
		return nil, ErrQueueFull
	default:
		cl.parked = append(cl.parked, c)
		return nil, nil
	}
	m := cl.targetOf(c)
	if c.Redirects, c.Asking = 0, false; c.Op.Creates() {
		cl.pendingAcquires[c.Token] = m
	}
	return m, nil
}

// targetOf is the member that has to have a command. An acquire that was not answered may
// still be executed where it was sent, or be sent on from there: what undoes it goes behind
// it, whatever the map says by now (docs/dev/rules.md rule 6). A slot that nobody has goes to
// anybody, who says so. Called under mu, with a map.
func (cl *cluster) targetOf(c *wire.Command) *shard {
	if m := cl.owner(c); m != nil {
		return m
	}
	for _, m := range cl.shards {
		return m
	}
	return nil // never: a map has masters
}

// owner is place for a command whose slot a member is known to have; nil where none is. Called
// under mu.
func (cl *cluster) owner(c *wire.Command) *shard {
	if m := cl.pendingAcquires[c.Token]; m != nil && !c.Op.Creates() && c.Token != "" {
		return m
	}
	if len(c.Keys) == 0 {
		return nil
	}
	return cl.slotOwners[wire.Slot(c.Keys[0])]
}

// acquireTracker is told the answer to an acquire, which has arrived then.
type acquireTracker struct {
	cluster *cluster
	to      wire.Answerer
}

// Answer hands it on.
func (at *acquireTracker) Answer(c *wire.Command, r wire.Reply) {
	at.cluster.mu.Lock()
	delete(at.cluster.pendingAcquires, c.Token)
	at.cluster.mu.Unlock()
	if at.to != nil {
		at.to.Answer(c, r)
	}
}
