// Command leader shows a leader that steps down when it loses its lock, before anybody else can lead.
//
// Two candidates want one lock. Who has it leads for as long as the lock's context lasts; the lock extends itself meanwhile. The leader's
// work then hangs: it reports no progress any more (WithProgress), so that its lock is not extended, and the context ends by the leader's
// own clock. The other candidate leads as soon as the masters let it, which is later. In the end that one is shut down: it releases the
// lock, and the first one, whose work goes on again, leads without having to wait for a lease to run out.
//
// Each term has a fence, larger than those of all terms before: what a leader does elsewhere carries it, so that the last orders of one
// that was paused can be turned away (see the example fencing).
//
//	go run ./examples/leader                  three masters inside of this process
//	go run ./examples/leader --nodes URLs     yours, with commas between them
//
// Exit status: 0 when it went as told, 1 when it did not, 2 for wrong usage.
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
	hangs  = lease / 2             // without progress for so long, nothing extends the lock
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

// election is one office and who wants it.
type election struct {
	*show.Stage
	terms chan *term // as they begin
	stop  context.CancelCauseFunc
	all   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	current *term
}

// term is one leader's time.
type term struct {
	who   string
	fence int64
	lock  *redlock.Lock
}

// next waits for a candidate's next term. On a busy machine others may come and go before.
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

// begin is told of every term. That the context of the one before has ended is asked of that one's own clock.
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
	work sync.Mutex // held by whatever the leader's work hangs on
}

// campaign leads whenever it may, until ctx ends.
func (c *candidate) campaign(ctx context.Context) {
	locker, err := redlock.Open(c.URLs, redlock.WithFencing(), redlock.WithOwner(c.name))
	if err != nil {
		c.stop(err)
		return
	}
	defer func() { _ = locker.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		lock, err := locker.Acquire(ctx, office, lease, redlock.WithAutoExtend(), redlock.WithProgress(hangs), redlock.WithMaxHold(redlock.NoMaxHold))
		if err != nil {
			continue // Acquire waits for masters that are down; only ctx ends it
		}
		if err := c.lead(ctx, lock); err != nil {
			c.stop(err)
		}
		_ = lock.Release(ctx) // ErrLost, where that is why the term ended
	}
}

// lead is a term: it ends with the lock's context, or with ctx.
func (c *candidate) lead(ctx context.Context, lock *redlock.Lock) error {
	t := &term{who: c.name, fence: lock.Fence(), lock: lock}
	if err := c.begin(t); err != nil {
		return err
	}
	c.Say("  %s  leads, with fence %d", c.name, t.fence)
	select {
	case c.terms <- t:
	case <-lock.Context().Done():
	case <-ctx.Done():
	}
	var work sync.WaitGroup
	defer work.Wait() // it hangs, perhaps: no new term before it has noticed that this one is over
	work.Go(func() { c.rule(ctx, lock) })
	select {
	case <-lock.Context().Done():
		c.Say("  %s  steps down: %v", c.name, context.Cause(lock.Context()))
	case <-ctx.Done():
	}
	return nil
}

// rule is the leader's work, for as long as both contexts last.
func (c *candidate) rule(ctx context.Context, lock *redlock.Lock) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for lock.Context().Err() == nil {
		c.work.Lock()
		lock.Progress()
		c.work.Unlock()
		select {
		case <-lock.Context().Done():
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
