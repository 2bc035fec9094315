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

// A Cluster is asked for its map again after chartOften, or when something says that it
// has changed, but not sooner than chartSeldom after the last answer. A member that does
// not answer within chartWithin is passed over.
const (
	chartOften  = 10 * time.Second
	chartSeldom = 100 * time.Millisecond
	chartWithin = time.Second
)

// maxWitnesses is how many masters are asked for the map in one round, and maxReasons how many of
// their errors are told.
const maxWitnesses, maxReasons = 16, 8

// poke has the map asked for soon.
func (cl *cluster) poke() {
	select {
	case cl.wake <- struct{}{}:
	default:
	}
}

// keepCharting asks for the map until ctx is done.
func (cl *cluster) keepCharting(ctx context.Context) {
	cfg := cl.node.cfg
	retry := newBackoff(cfg)
	for ctx.Err() == nil {
		err := cl.survey(ctx)
		if err == nil {
			retry.reset()
			pause(ctx, cfg.Clock, chartSeldom)
			cl.rest(ctx)
			continue
		}
		if cl.uncharted(err) && ctx.Err() == nil {
			cl.node.log("no member of the Cluster tells its map", err)
		}
		retry.pause(ctx)
	}
}

// rest waits until it is time to ask again.
func (cl *cluster) rest(ctx context.Context) {
	over, stop := clock.After(cl.node.cfg.Clock, chartOften)
	defer stop()
	select {
	case <-over:
	case <-cl.wake:
	case <-ctx.Done():
	}
}

// survey asks one member after the other until one tells the map.
func (cl *cluster) survey(ctx context.Context) error {
	var errs []error
	witnesses := cl.witnesses()
	for _, address := range witnesses {
		all, err := cl.ask(ctx, address)
		if err == nil {
			cl.adopt(all)
			return nil
		}
		if len(errs) < maxReasons {
			errs = append(errs, fmt.Errorf("%s: %w", address, severed(err)))
		}
	}
	if more := len(witnesses) - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("pool: %s: no member of the Cluster tells its map: %w", cl.node.cfg.Name, oneline.Join(errs...))
}

// witnesses are whom to ask, in this order: who should know best, some of the masters, and those
// that the configuration names. Masters that a wrong map named must not keep those from being asked.
func (cl *cluster) witnesses() []string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	var masters []string
	for a := range cl.members {
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
	add(cl.newest)
	rand.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	add(masters[:min(len(masters), maxWitnesses)]...)
	add(cl.node.cfg.Cluster...)
	return all
}

// ask has one member tell the map.
func (cl *cluster) ask(ctx context.Context, address string) (all []served, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(chartWithin, cl.node.cfg.DialTimeout))
	defer cancel()
	s, err := cl.asker.greeted(context.WithValue(ctx, addressKey{}, address))
	if err == nil {
		defer s.close()
		defer s.abort()
		stop := context.AfterFunc(ctx, s.abort)
		defer stop()
		s.in.scan.Limits = topologyLimits
		err = s.run([]step{{"CLUSTER", []any{"SLOTS"}, func(reply any, err error) error {
			all, err = slots(reply, err, address)
			return err
		}}})
	}
	if err != nil && ctx.Err() != nil {
		return nil, errors.New("no answer in time")
	}
	return all, err
}

// adopt takes a map for the present one. What waited for it goes out, what waits for a
// master that has lost its slot goes to whoever has it, and who has had none for the hard
// timeout is let go. Nothing depends on that the map is right: a master knows its own slots.
func (cl *cluster) adopt(all []served) {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return
	}
	gone := cl.draw(all)
	waiting, lost := cl.waiting, cl.lost()
	cl.charted, cl.waiting, cl.down, cl.newest = true, nil, nil, ""
	cl.tell()
	members := slices.Collect(maps.Values(cl.members))
	cl.mu.Unlock()
	for _, c := range waiting {
		cl.resend(c)
	}
	for _, m := range members {
		m.forward()
	}
	for _, m := range gone {
		m.leave()
	}
	for _, s := range lost {
		s.cut(errNoMaster)
	}
}

// draw writes down who has which slots, and takes those out that have had none for long, or
// at once where there are too many. Called under mu.
func (cl *cluster) draw(all []served) (gone []*member) {
	now := cl.node.cfg.Clock.Now()
	cl.owners = [wire.Slots]*member{}
	busy := make(map[*member]bool, len(cl.members))
	for _, r := range all {
		m := cl.member(r.address)
		busy[m], m.idle = true, 0
		for slot := r.first; slot <= r.last; slot++ {
			cl.owners[slot] = m
		}
	}
	for _, m := range cl.members {
		switch {
		case busy[m]:
		case m.idle == 0 && len(cl.members) <= maxMembers:
			m.idle = now
		case now.Sub(m.idle) >= cl.node.cfg.HardTimeout, len(cl.members) > maxMembers:
			delete(cl.members, m.address)
			maps.DeleteFunc(cl.acquires, func(_ string, at *member) bool { return at == m })
			gone = append(gone, m)
		}
	}
	return gone
}

var errNoMaster = errors.New("pool: it is no master of the Cluster any more")

// lost are the connections to who is no master any more. Called under mu.
func (cl *cluster) lost() (all []*session) {
	for s := range cl.sessions {
		if m := cl.members[s.address]; m == nil || m.idle != 0 {
			all = append(all, s)
		}
	}
	return all
}

// uncharted ends what waits for the first map, but for undos that are of use, and has
// what follows fail at once. It reports whether that is news.
func (cl *cluster) uncharted(err error) (news bool) {
	cl.mu.Lock()
	if cl.charted {
		cl.mu.Unlock()
		return false // the one before is as good as any: masters know better
	}
	news, cl.down = cl.down == nil, err
	var drop []*wire.Command
	kept := cl.waiting[:0]
	for _, c := range cl.waiting {
		if c.Op.Undoes() && !c.Expired() {
			kept = append(kept, c)
		} else {
			drop = append(drop, c)
		}
	}
	cl.waiting = kept
	cl.tell()
	cl.mu.Unlock()
	for _, c := range drop {
		c.Fail(err)
	}
	return news
}

// tell wakes those who wait for a map. Called under mu.
func (cl *cluster) tell() {
	if cl.news != nil {
		close(cl.news)
		cl.news = nil
	}
}

// await returns when there is a map, or why there is none.
func (cl *cluster) await(ctx context.Context) error {
	for {
		cl.mu.Lock()
		charted, down := cl.charted, cl.down
		if cl.news == nil {
			cl.news = make(chan struct{})
		}
		news := cl.news
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
