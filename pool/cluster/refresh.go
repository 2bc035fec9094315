package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// refreshEvery is the interval of queries of the slot map. A sign that the map has changed
// advances the next query, but not to sooner than refreshSeldom after the last answer. A member
// that does not answer within queryTimeout is skipped. Each round in which none did doubles that
// time, up to the dial timeout: the members may be far, or slow to greet.
const (
	refreshEvery  = 10 * time.Second
	refreshSeldom = 100 * time.Millisecond
	queryTimeout  = time.Second
)

// mapReader is told what the members answer.
type mapReader interface {
	toQuery() []string                    // whom to ask, in this order
	apply(all []slotRange, by string)     // a member answered
	topologyFailed(err error) (news bool) // no member did; it reports whether commands have waited until now
}

// refresher asks the members of a Cluster for the slot map, one after the other.
type refresher struct {
	tells  mapReader
	parts  *node.Parts
	wake   signal.Signal // ask at once
	asking sync.WaitGroup
	stop   context.CancelFunc
	failed int // rounds in a row in which no member answered; used by run only
}

// newRefresher makes the refresher of a Cluster. begin starts it.
func newRefresher(tells mapReader, p *node.Parts) *refresher {
	return &refresher{tells: tells, parts: p, wake: signal.New()}
}

// begin begins to ask.
func (r *refresher) begin() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.asking.Go(func() { r.run(ctx) })
}

// end waits until the last question is over.
func (r *refresher) end() {
	r.stop()
	r.asking.Wait()
}

// run queries the slot map until ctx is done.
func (r *refresher) run(ctx context.Context) {
	b := transport.NewRedial(r.parts.Settings)
	b.Run(ctx, func(ctx context.Context) transport.Next {
		err := r.refresh(ctx)
		if err == nil {
			b.Reset()
			r.failed = max(0, r.failed-1) // not 0: the members may be as slow the next time
			// During a reshard every redirect calls for another query. The pause bounds their rate.
			timer.Wait(r.parts.Settings.Clock, refreshSeldom, ctx.Done())
			r.waitNextPoll(ctx)
			return transport.AtOnce
		}
		// Only the first failed round of a node without a slot map is logged. The next rounds
		// would repeat it. Once there is a map, a failure leaves it in use and is not logged.
		if r.tells.topologyFailed(err) && ctx.Err() == nil {
			r.parts.Log("no cluster node returned CLUSTER SLOTS", err)
		}
		r.failed++
		// The pause grows while no member answers, so a Cluster that is down is not flooded with
		// dials.
		return transport.AfterPause
	})
}

// waitNextPoll waits until the next query is due.
func (r *refresher) waitNextPoll(ctx context.Context) {
	over, stop := timer.After(r.parts.Settings.Clock, refreshEvery)
	defer stop()
	select {
	case <-over:
	// A redirect or a lost connection shows that the map may be old.
	case <-r.wake:
	case <-ctx.Done():
	}
}

// refresh queries one member after the other until one answers with the slot map.
func (r *refresher) refresh(ctx context.Context) error {
	var errs []error
	// The first answer is believed. A wrong map costs redirects only, because every master refuses
	// slots that it does not own.
	for _, address := range r.tells.toQuery() {
		all, err := r.ask(ctx, address)
		if err == nil {
			r.tells.apply(all, address)
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, transport.WithoutContext(err)))
	}
	return fmt.Errorf("pool: %s: no cluster node returned CLUSTER SLOTS: %w", r.parts.Name, oneline.Join(errs...))
}

// ask queries one member for the slot map.
func (r *refresher) ask(ctx context.Context, address string) (all []slotRange, err error) {
	within := min(queryTimeout<<min(r.failed, 9), r.parts.Settings.DialTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, within, errNoAnswer)
	// Bounded for each member, so a frozen one delays the others by a second while any answers.
	defer cancel()
	of := r.parts.Settings.At(address)
	s, err := node.Greeting(of, of)(ctx)
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

var errNoAnswer = errors.New("no answer in time")
