package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// A Cluster is asked for its map again after refreshEvery, or when something says that it
// has changed, but not sooner than refreshSeldom after the last answer. A member that does
// not answer within queryTimeout is passed over.
const (
	refreshEvery  = 10 * time.Second
	refreshSeldom = 100 * time.Millisecond
	queryTimeout  = time.Second
)

// maxCandidates is how many masters are asked for the map in one round, and maxReasons how many of
// their errors are told.
const maxCandidates, maxReasons = 16, 8

// wakeUp has the map asked for soon.
func (cl *cluster) wakeUp() {
	select {
	case cl.wake <- struct{}{}:
	default:
	}
}

// refreshLoop asks for the map until ctx is done.
func (cl *cluster) refreshLoop(ctx context.Context) {
	cfg := cl.node.cfg
	retry := newBackoff(cfg)
	for ctx.Err() == nil {
		err := cl.refresh(ctx)
		if err == nil {
			retry.reset()
			pause(ctx, cfg.Clock, refreshSeldom)
			cl.waitNextPoll(ctx)
			continue
		}
		if cl.topologyFailed(err) && ctx.Err() == nil {
			cl.node.log("no member of the Cluster tells its map", err)
		}
		retry.pause(ctx)
	}
}

// waitNextPoll waits until it is time to ask again.
func (cl *cluster) waitNextPoll(ctx context.Context) {
	over, stop := clock.After(cl.node.cfg.Clock, refreshEvery)
	defer stop()
	select {
	case <-over:
	case <-cl.wake:
	case <-ctx.Done():
	}
}

// refresh asks one member after the other until one tells the map.
func (cl *cluster) refresh(ctx context.Context) error {
	var errs []error
	witnesses := cl.candidates()
	for _, address := range witnesses {
		all, err := cl.ask(ctx, address)
		if err == nil {
			cl.apply(all)
			return nil
		}
		if len(errs) < maxReasons {
			errs = append(errs, fmt.Errorf("%s: %w", address, withoutContextError(err)))
		}
	}
	if more := len(witnesses) - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("pool: %s: no member of the Cluster tells its map: %w", cl.node.cfg.Name, oneline.Join(errs...))
}

// candidates are whom to ask, in this order: who should know best, some of the masters, and those
// that the configuration names. Masters that a wrong map named must not keep those from being asked.
func (cl *cluster) candidates() []string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	var masters []string
	for a := range cl.shards {
		masters = append(masters, a)
	}
	all, seen := []string(nil), map[string]bool{"": true}
	add := func(addresses ...string) {
		for _, a := range addresses {
			if !seen[a] {
				seen[a], all = true, append(all, a)
			}
		}
	}
	add(cl.hint)
	rand.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	add(masters[:min(len(masters), maxCandidates)]...)
	add(cl.node.cfg.Cluster...)
	return all
}

// ask has one member tell the map.
func (cl *cluster) ask(ctx context.Context, address string) (all []slotRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(queryTimeout, cl.node.cfg.DialTimeout))
	defer cancel()
	s, err := cl.topologyClient.dialReady(context.WithValue(ctx, addressKey{}, address))
	if err == nil {
		defer s.close()
		defer s.abort()
		stop := context.AfterFunc(ctx, s.abort)
		defer stop()
		s.in.scan.Limits = topologyLimits
		err = s.run([]step{{"CLUSTER", []any{"SLOTS"}, func(reply any, err error) error {
			all, err = parseSlots(reply, err, address)
			return err
		}}})
	}
	if err != nil && ctx.Err() != nil {
		return nil, errors.New("no answer in time")
	}
	return all, err
}

// apply takes a map for the present one. What waited for it goes out, what waits for a
// master that has lost its slot goes to whoever has it, and who has had none for the hard
// timeout is let go. Nothing depends on that the map is right: a master knows its own slots.
func (cl *cluster) apply(all []slotRange) {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return
	}
	gone := cl.assign(all)
	waiting, lost := cl.parked, cl.staleConns()
	cl.hasTopology, cl.parked, cl.down, cl.hint = true, nil, nil, ""
	cl.broadcast()
	members := slices.Collect(maps.Values(cl.shards))
	cl.mu.Unlock()
	for _, c := range waiting {
		cl.resend(c)
	}
	for _, m := range members {
		m.moveQueued()
	}
	for _, m := range gone {
		m.retire()
	}
	for _, s := range lost {
		s.closeFor(errNoMaster)
	}
}

// assign writes down who has which slots, and takes those out that have had none for long, or
// at once where there are too many. Called under mu.
func (cl *cluster) assign(all []slotRange) (gone []*shard) {
	now := cl.node.cfg.Clock.Now()
	cl.slotOwners = [wire.Slots]*shard{}
	busy := make(map[*shard]bool, len(cl.shards))
	for _, r := range all {
		m := cl.shardOf(r.address)
		busy[m], m.slotlessSince = true, 0
		for slot := r.first; slot <= r.last; slot++ {
			cl.slotOwners[slot] = m
		}
	}
	for _, m := range cl.shards {
		switch {
		case busy[m]:
		case m.slotlessSince == 0 && len(cl.shards) <= maxShards:
			m.slotlessSince = now
		case now.Sub(m.slotlessSince) >= cl.node.cfg.HardTimeout, len(cl.shards) > maxShards:
			delete(cl.shards, m.address)
			maps.DeleteFunc(cl.pendingAcquires, func(_ string, at *shard) bool { return at == m })
			gone = append(gone, m)
		}
	}
	return gone
}

var errNoMaster = errors.New("pool: it is no master of the Cluster any more")

// staleConns are the connections to who is no master any more. Called under mu.
func (cl *cluster) staleConns() (all []*rawConn) {
	for s := range cl.sessions {
		if m := cl.shards[s.address]; m == nil || m.slotlessSince != 0 {
			all = append(all, s)
		}
	}
	return all
}

// topologyFailed ends what waits for the first map, but for undos that are of use, and has
// what follows fail at once. It reports whether that is news.
func (cl *cluster) topologyFailed(err error) (news bool) {
	cl.mu.Lock()
	if cl.hasTopology {
		cl.mu.Unlock()
		return false // the one before is as good as any: masters know better
	}
	news, cl.down = cl.down == nil, err
	var drop []*wire.Command
	kept := cl.parked[:0]
	for _, c := range cl.parked {
		if c.Op.Undoes() && !c.Expired() {
			kept = append(kept, c)
		} else {
			drop = append(drop, c)
		}
	}
	cl.parked = kept
	cl.broadcast()
	cl.mu.Unlock()
	for _, c := range drop {
		c.Fail(err)
	}
	return news
}

// broadcast wakes those who wait for a map. Called under mu.
func (cl *cluster) broadcast() {
	if cl.changed != nil {
		close(cl.changed)
		cl.changed = nil
	}
}

// waitTopology returns when there is a map, or why there is none.
func (cl *cluster) waitTopology(ctx context.Context) error {
	for {
		cl.mu.Lock()
		charted, down := cl.hasTopology, cl.down
		if cl.changed == nil {
			cl.changed = make(chan struct{})
		}
		news := cl.changed
		cl.mu.Unlock()
		switch {
		case charted:
			return nil
		case down != nil:
			return down
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("pool: %s: no member of the Cluster has told its map yet", cl.node.cfg.Name)
		}
	}
}
