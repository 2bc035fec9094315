package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// refreshEvery is the interval of queries of the slot map. A sign that the map has changed
// advances the next query, but not to sooner than refreshSeldom after the last answer. A member
// that does not answer within queryTimeout is skipped.
const (
	refreshEvery  = 10 * time.Second
	refreshSeldom = 100 * time.Millisecond
	queryTimeout  = time.Second
)

// refreshLoop queries the slot map until ctx is done.
func (cl *cluster) refreshLoop(ctx context.Context) {
	b := transport.NewRedial(cl.node.settings)
	b.Run(ctx, func(ctx context.Context) transport.Next {
		err := cl.refresh(ctx)
		if err == nil {
			b.Reset()
			// During a reshard every redirect calls for another query. The pause bounds their rate.
			transport.Pause(ctx, cl.node.cfg.Clock, refreshSeldom)
			cl.waitNextPoll(ctx)
			return transport.AtOnce
		}
		// Only the first failed round of a node without a slot map is logged. The next rounds
		// would repeat it. Once there is a map, a failure leaves it in use and is not logged.
		if cl.topologyFailed(err) && ctx.Err() == nil {
			cl.node.log("no cluster node returned CLUSTER SLOTS", err)
		}
		// The pause grows while no member answers, so a Cluster that is down is not flooded with
		// dials.
		return transport.AfterPause
	})
}

// waitNextPoll waits until the next query is due.
func (cl *cluster) waitNextPoll(ctx context.Context) {
	over, stop := timer.After(cl.node.cfg.Clock, refreshEvery)
	defer stop()
	select {
	case <-over:
	// A redirect or a lost connection shows that the map may be old.
	case <-cl.wake:
	case <-ctx.Done():
	}
}

// refresh queries one member after the other until one answers with the slot map.
func (cl *cluster) refresh(ctx context.Context) error {
	var errs []error
	// The first answer is believed. A wrong map costs redirects only, because every master refuses
	// slots that it does not own.
	for _, address := range cl.candidates() {
		all, err := cl.ask(ctx, address)
		if err == nil {
			cl.apply(all, address)
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, transport.WithoutContext(err)))
	}
	return fmt.Errorf("pool: %s: no cluster node returned CLUSTER SLOTS: %w", cl.node.cfg.Name, oneline.Join(errs...))
}

// candidates returns the members to query, in this order.
func (cl *cluster) candidates() []string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.slots.candidates(cl.node.cfg.Cluster, rand.Perm)
}

// ask queries one member for the slot map.
func (cl *cluster) ask(ctx context.Context, address string) (all []slotRange, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(queryTimeout, cl.node.cfg.DialTimeout), errNoAnswer)
	// Bounded for each member, so a frozen one delays the others by a second at most.
	defer cancel()
	s, err := cl.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// A slot map is larger than any other reply, so this connection has limits of its own.
	s.Bound(transport.MapLimits)
	replies, err := s.Ask(ctx, transport.Call{Name: "CLUSTER", Args: []any{"SLOTS"}})
	if err == nil {
		all, err = parseSlots(replies[0].Value, replies[0].Err, address)
	}
	// The end of ctx fails the read with an error of the network, which would hide the reason.
	if err != nil && ctx.Err() != nil {
		return nil, errNoAnswer
	}
	return all, err
}

// dial dials a member.
func (cl *cluster) dial(ctx context.Context, address string) (*transport.Conn, error) {
	settings := cl.node.cfg.at(address).transport()
	return greeting(settings, settings)(ctx)
}

var errNoAnswer = errors.New("no answer in time")

// apply replaces the slot map by that of a member. Commands that wait for a map are sent. Commands queued for a
// master that has lost its slot move to the new owner. A shard without slots for the hard timeout
// is retired.
//
// Everything after the mutex is released may take mutexes of servers or answer commands. The new map is
// in place by then, so a command that is routed again meanwhile follows it.
func (cl *cluster) apply(all []slotRange, by string) {
	cl.mu.Lock()
	// The node's Close has the list of all shards by now, and closes them. A shard that a later map
	// made would not be on that list.
	if cl.closed {
		cl.mu.Unlock()
		return
	}
	gone := cl.assignLocked(all, by)
	// Taken together with the new map, so no command is both unrouted and sent.
	waiting, subscriptions := cl.unrouted, slices.Collect(maps.Keys(cl.subscriptions))
	cl.hasTopology, cl.unrouted, cl.down = true, nil, nil
	cl.changed.Wake()
	shards := slices.Collect(maps.Values(cl.shards))
	cl.mu.Unlock()
	for _, c := range waiting {
		// First the commands that have waited for longest.
		cl.redispatch(c)
	}
	for _, sh := range shards {
		sh.moveQueued()
	}
	for _, sh := range gone {
		sh.Retire(cl.handBack, errNoMaster)
	}
	for _, s := range subscriptions {
		s.follow()
	}
}

// assignLocked tells the slot map, and makes the shards that are new. It removes and returns those that have to be
// retired.
func (cl *cluster) assignLocked(all []slotRange, by string) (gone []*shard) {
	added, left := cl.slots.mapped(all, by, cl.node.cfg.Clock.Now())
	// A new address gets a shard of its own here. A known one keeps its shard, with its connections
	// and its unanswered commands.
	for _, address := range added {
		cl.shardOfLocked(address)
	}
	for _, address := range left {
		// Commands may still be unanswered here: the watchdog counts silence from its own checks.
		// retire therefore keeps the undos among them. apply calls retire after the mutex is
		// released, because retire waits for goroutines.
		gone = append(gone, cl.shards[address])
		delete(cl.shards, address)
	}
	return gone
}

var errNoMaster = errors.New("pool: node is no longer a cluster master")

// topologyFailed ends the commands that wait for the first slot map, except undos that have not
// expired, and makes later commands fail at once. It reports whether the commands had waited
// until now.
func (cl *cluster) topologyFailed(err error) (news bool) {
	cl.mu.Lock()
	if cl.hasTopology {
		cl.mu.Unlock()
		return false // the present map remains: masters know their own slots
	}
	// From here on commands without a map fail at once. Waiting would hide the outage behind the
	// node timeout of each caller.
	news, cl.down = cl.down == nil, err
	var drop []*command.Command
	kept, now := cl.unrouted[:0], cl.node.shared.Member().Clock.Now()
	for _, c := range cl.unrouted {
		// An undo must reach the Cluster as long as its keys may exist. Every other command is
		// given up.
		if c.Op.Undoes() && !c.Expired(now) {
			kept = append(kept, c)
		} else {
			drop = append(drop, c)
		}
	}
	cl.unrouted = kept
	cl.changed.Wake()
	cl.mu.Unlock()
	for _, c := range drop {
		// Outside the mutex: Fail calls the coordinator, which may submit to this node again.
		c.Fail(err)
	}
	return news
}

// waitTopology returns when there is a slot map, or why there is none.
func (cl *cluster) waitTopology(ctx context.Context) error {
	for {
		cl.mu.Lock()
		hasTopology, down := cl.hasTopology, cl.down
		news := cl.changed.Next()
		cl.mu.Unlock()
		switch {
		case hasTopology:
			return nil
		case down != nil:
			return down
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("pool: %s: no cluster node has returned CLUSTER SLOTS yet", cl.node.cfg.Name)
		}
	}
}
