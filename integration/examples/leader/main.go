// Command leader shows a leader that steps down when it loses its lock, before another candidate can lead.
//
// Two candidates want one lock. Its holder leads until the lock's context ends; meanwhile the lock
// is extended automatically. Then the leader's work hangs: it reports no progress (WithProgress),
// so its lock is not extended, and the context ends by the leader's own clock. The other candidate
// leads when the lock has expired on the nodes, which is later. In the end the second leader is
// shut down. It releases the lock, and the first candidate, whose work has resumed, leads without
// waiting for a lease to expire.
//
// Each term has a fence, which orders the terms. A leader sends it with
// every order to another system, so that system can reject late orders of a leader that was paused
// (see the example fencing). A new leader sends its fence before it reads that system's state:
// otherwise a late order may come in between.
//
//	go run ./examples/leader                  on three servers inside this process
//	go run ./examples/leader --nodes URLs     on your servers; commas separate the URLs
//
// Exit status: 0 if the scenario ended as described, 1 if it did not, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	office = "example:leader"
	lease  = 2 * time.Second
	beat   = 50 * time.Millisecond // of the leader's work
	hangs  = lease / 2             // without progress for this long the lock is not extended
)

func main() { os.Exit(show.Run("leader", play, os.Args[1:], os.Stdout, os.Stderr)) }

func play(ctx context.Context, s *show.Stage) error {
	ctx, stop := context.WithCancelCause(ctx)
	e := &election{Stage: s, terms: make(chan *term), stop: stop}
	defer e.all.Wait()
	defer stop(nil)
	a := &candidate{election: e, name: "A"}
	b := &candidate{election: e, name: "B"}

	e.all.Go(func() { a.campaign(ctx) })
	first, err := e.next(ctx, a)
	if err != nil {
		return err
	}
	ofB, shutDown := context.WithCancel(ctx)
	defer shutDown()
	e.all.Go(func() { b.campaign(ofB) })
	a.work.Lock()
	s.Say("  A  hangs")
	second, err := e.next(ctx, b)
	a.work.Unlock()
	if err != nil {
		return err
	}
	s.Say("  B  is shut down")
	shutDown()
	third, err := e.next(ctx, a)
	if err != nil {
		return err
	}
	if first.fence >= second.fence || second.fence >= third.fence {
		return errors.New("the fences do not increase")
	}
	s.Say("Never two leaders, and each with a larger fence.")
	return nil
}

// election is one office and its candidates.
type election struct {
	*show.Stage
	terms chan *term // as they begin
	stop  context.CancelCauseFunc
	all   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	current *term
}

// term is the time of one leader.
type term struct {
	who   string
	fence int64
	lock  *redlock.Lock
}

// next waits for the candidate's next term. On a busy machine another candidate may have a term before it.
func (e *election) next(ctx context.Context, want *candidate) (*term, error) {
	for {
		select {
		case t := <-e.terms:
			if t.who == want.name {
				return t, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin records a new term. It returns an error if the context of the last term has not ended by
// the clock of that term's leader.
func (e *election) begin(t *term) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil && e.current.lock.Context().Err() == nil {
		return fmt.Errorf("two leaders: %s and %s", e.current.who, t.who)
	}
	e.current = t
	return nil
}

// candidate is a process that wants to lead.
type candidate struct {
	*election
	name string
	work sync.Mutex // held while the leader's work hangs
}

// campaign leads whenever it is elected, until ctx ends.
func (c *candidate) campaign(ctx context.Context) {
	locker, err := redlock.Open(c.URLs, redlock.WithFencing(), redlock.WithOwner(c.name))
	if err != nil {
		c.stop(err)
		return
	}
	defer func() { _ = locker.Close(context.WithoutCancel(ctx)) }()
	err = locker.Lead(ctx, office, lease, c.lead, redlock.WithProgress(hangs))
	if ctx.Err() == nil {
		c.stop(err)
	}
}

// lead is one term. It ends with its context: that of the lock.
func (c *candidate) lead(ctx context.Context, lock *redlock.Lock) error {
	t := &term{who: c.name, fence: lock.Fence(), lock: lock}
	if err := c.begin(t); err != nil {
		return err
	}
	c.Say("  %s  leads, with fence %d", c.name, t.fence)
	select {
	case c.terms <- t:
	case <-ctx.Done():
	}
	var work sync.WaitGroup
	defer work.Wait() // the work may hang: Lead begins no new term before this one has ended
	work.Go(func() { c.rule(ctx, lock) })
	<-ctx.Done()
	if cause := context.Cause(ctx); errors.Is(cause, redlock.ErrLost) {
		c.Say("  %s  steps down: %v", c.name, cause)
	}
	return nil
}

// rule is the leader's work. It ends when its context ends.
func (c *candidate) rule(ctx context.Context, lock *redlock.Lock) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.work.Lock()
		lock.Progress()
		c.work.Unlock()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
