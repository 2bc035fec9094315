package cluster

import (
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/server"
)

// Submit routes commands to the masters of their slots: see node.Shape.
func (cl *clusterNode) Submit(c, behind *command.Command) error {
	if behind != nil {
		return cl.submitBoth(c, behind)
	}
	// A script may use only keys of one slot, so it cannot read the marker beside the lock's key.
	if c.Guarded || c.Op == command.VerifyMarker {
		return errUnguarded
	}
	track(cl, c)
	return cl.dispatch(c)
}

// track has the slot map told that an acquire is over before its answer is passed on: a later command may
// then follow the map. The submitter answers one that is not taken.
func track(cl *clusterNode, c *command.Command) {
	if c.Op.Creates() {
		c.To = &acquireTracker{cluster: cl, to: c.To}
	}
}

var errUnguarded = fmt.Errorf("pool: %w: a Redis Cluster cannot use the restart guard", command.ErrUnfit)

// dispatch routes a command that is in no queue. It returns why no shard takes it.
func (cl *clusterNode) dispatch(c *command.Command) error {
	for {
		sh, err := cl.route(c)
		switch {
		case err != nil:
			return err
		case sh == nil: // it waits for the slot map
			return nil
		// Only a Ping has no key.
		case len(c.Keys) == 0:
			return pingAll(cl, c)
		}
		if err := sh.Submit(c, nil); !errors.Is(err, server.ErrRetired) {
			return err
		}
	}
}

// redispatch routes a command that a shard has taken before.
func (cl *clusterNode) redispatch(c *command.Command) {
	if err := cl.dispatch(c); err != nil {
		c.Fail(err)
	}
}

// submitBoth submits two commands. They are written together if both go to one server.
func (cl *clusterNode) submitBoth(first, second *command.Command) error {
	cl.mu.Lock()
	// Both targets are read under one lock. A map that arrives in between could otherwise separate
	// the commands, and the second one could overtake the first.
	one, two := cl.targetOfLocked(first), cl.targetOfLocked(second)
	together := cl.hasTopology && !cl.closed && one == two && second.Op.Creates() && !second.Guarded
	if together {
		cl.slots.sent(second.Request, two.address)
	}
	cl.mu.Unlock()
	if together {
		track(cl, second)
		if err := two.Submit(first, second); !errors.Is(err, server.ErrRetired) {
			return err
		}
	}
	// Each is routed by itself: it waits for a map, or follows the slots. The second one comes first, so
	// that neither is taken if that is not. If it then precedes a release on its server, it is refused.
	if err := cl.Submit(second, nil); err != nil {
		return err
	}
	return cl.Submit(first, nil)
}

// route returns the shard of a command. Without a shard and an error the command waits for the
// slot map.
func (cl *clusterNode) route(c *command.Command) (*shard, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// Only Close ends an undo here. Its keys may exist, so it waits for a map without a bound on
	// the queue.
	undoes := c.Op.Undoes()
	switch {
	case cl.closed:
		return nil, server.ErrClosed
	// The usual case. The cases below are those of a node that never had a slot map.
	case cl.hasTopology:
	case cl.down != nil && !undoes:
		return nil, cl.down
	case len(cl.unrouted) >= cl.parts.Queue && !undoes:
		return nil, server.ErrQueueFull
	default:
		cl.unrouted = append(cl.unrouted, c)
		return nil, nil
	}
	sh := cl.targetOfLocked(c)
	c.Redirects = 0
	c.SetAsking(false)
	// Under the same lock as the choice of the shard: the undo of this token, submitted at any time
	// later, goes to this shard.
	cl.slots.sent(c.Request, sh.address)
	return sh, nil
}

// targetOfLocked returns the shard for a command. A command for a slot without a shard goes to any
// shard, which answers with an error. It is called with a slot map.
func (cl *clusterNode) targetOfLocked(c *command.Command) *shard {
	if sh := cl.shards[cl.slots.target(c.Request)]; sh != nil {
		return sh
	}
	// Any shard will do: it answers MOVED or CLUSTERDOWN, and a MOVED updates the map.
	for _, sh := range cl.shards {
		return sh
	}
	return nil // never: a slot map has masters
}

// acquireTracker receives the answer to an acquire, which is then no longer unanswered.
type acquireTracker struct {
	cluster *clusterNode
	to      command.Answerer
}

// Answer passes the answer on.
func (at *acquireTracker) Answer(c *command.Command, r command.Reply) {
	at.cluster.mu.Lock()
	// Before the answer: the undo that the answer causes must not follow the acquire after that is
	// known to be over.
	at.cluster.slots.answered(c.Token())
	at.cluster.mu.Unlock()
	if at.to != nil {
		at.to.Answer(c, r)
	}
}

// mayRedirectTo reports whether a command may be redirected to an address.
func (cl *clusterNode) mayRedirectTo(address string) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.slots.hasRoomFor(address)
}

// redirected records where a command goes, and the owner of the slot unless the slot is still being
// moved.
func (cl *clusterNode) redirected(c *command.Command, from string, r redirection) *shard {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed {
		return nil
	}
	cl.redirects++
	if r.asking {
		cl.slots.asked(r.address, from, cl.parts.Settings.Clock.Now())
	} else {
		cl.slots.moved(r.slot, r.address, from)
	}
	// The undo of this token must go where the acquire is, even if the map says otherwise by then.
	cl.slots.sent(c.Request, r.address)
	// The shard is made if the map did not have it yet: the redirect is newer than the map.
	return cl.shardOfLocked(r.address)
}

// goesElsewhere reports whether another shard has a command's slot. It may be called under the mutex of a queue, as the order of
// mutexes allows.
func (cl *clusterNode) goesElsewhere(sh *shard, c *command.Command) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	owner := cl.slots.target(c.Request) // without an owner no other shard can serve the slot
	return !cl.closed && owner != "" && cl.shards[owner] != sh
}
