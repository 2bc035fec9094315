// Command migration shows a service that migrates from redsync to this library in two deployments,
// without a pause. Its workers contend for one name all the time, and a ledger detects whether two
// of them were ever inside at once.
//
//	1  All workers use redsync.
//	2  The first deployment, worker by worker: this library on the same servers and keys.
//	   Both libraries exclude each other. Clients without the restart guard refuse a node
//	   that has a marker of the guard. So these workers already except the nodes
//	   (WithUnsafeNodes) and keep to the guard's maxTTL (WithMaxTTL).
//	3  The last worker with redsync is gone.
//	4  The second deployment switches the guard on. The first worker waits for a whole
//	   maxTTL until the nodes vote for it, while the others continue. Then the remaining
//	   workers follow, and the workers without the guard leave.
//
//	GOWORK=off go -C integration/peers run ./examples/migration                  on three servers inside this process
//	GOWORK=off go -C integration/peers run ./examples/migration --nodes URLs     on your servers; commas separate the URLs
//
// Step 4 leaves the marker (redlock:guard) on your servers, so the example runs once on each. Delete
// the marker to run it again. docs/migration.md and docs/operations.md describe the steps.
//
// Exit status: 0 if the migration succeeded, 1 if it did not, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	invoice = "example:migration:invoice/42"
	another = "example:migration:invoice/43"
	expiry  = 30 * time.Second // of redsync's locks
	maxTTL  = 3 * time.Second  // of our locks and of the guard: a restarted node is quarantined for as long
	turns   = 10               // of each worker in each step

	// patience is the node timeout on a busy machine that runs all processes. A service needs no
	// WithNodeTimeout.
	patience = maxTTL / 2
)

func main() { os.Exit(show.Run("migration", play, os.Args[1:], os.Stdout, os.Stderr)) }

// service is what is being deployed.
type service struct {
	*show.Stage

	ledger ledger
	closes []func()
}

func play(ctx context.Context, s *show.Stage) error {
	v := &service{Stage: s}
	defer func() {
		for _, end := range slices.Backward(v.closes) { // a Locker before the pools
			end()
		}
	}()
	if err := v.unmarked(ctx); err != nil {
		return err
	}
	old1, old2 := v.redsync("redsync-1"), v.redsync("redsync-2")
	s.Say("1  redsync alone")
	if err := v.contend(ctx, old1, old2); err != nil {
		return err
	}
	ours, err := v.first(ctx, old1, old2)
	if err != nil {
		return err
	}
	return v.second(ctx, ours)
}

// forNow returns the options of the first deployment.
func forNow(nodes []string) []redlock.Option {
	return []redlock.Option{redlock.WithUnsafeNodes(nodes...), redlock.WithMaxTTL(maxTTL)}
}

// first is the first deployment. It returns the clients that remain when the last redsync is gone.
func (v *service) first(ctx context.Context, old1, old2 *old) ([]client, error) {
	new1, err := v.open("ours-1", forNow)
	if err != nil {
		return nil, err
	}
	s := v.Stage
	s.Say("2  %s takes the place of %s", new1.who, old1.who)
	for _, pair := range [][2]client{{new1, old2}, {old2, new1}} {
		if err := excludes(ctx, pair[0], pair[1]); err != nil {
			return nil, err
		}
		s.Say("   while %s holds the name, %s is refused", pair[0], pair[1])
	}
	if err := v.contend(ctx, new1, old2); err != nil {
		return nil, err
	}
	new2, err := v.open("ours-2", forNow)
	if err != nil {
		return nil, err
	}
	s.Say("3  %s takes the place of %s, the last redsync", new2.who, old2.who)
	return []client{new1, new2}, v.contend(ctx, new1, new2)
}

// guard returns the options of the second deployment.
func guard([]string) []redlock.Option { return []redlock.Option{redlock.WithRestartGuard(maxTTL)} }

// second is the second deployment.
func (v *service) second(ctx context.Context, before []client) error {
	began := time.Now() // its quarantine begins later
	pioneer, err := v.open("guarded-1", guard)
	if err != nil {
		return err
	}
	if err := pioneer.try(ctx, another, began.Add(maxTTL)); !errors.Is(err, redlock.ErrQuarantined) {
		return errors.Join(errors.New("the guard's first client should have to wait"), err)
	}
	v.Say("4  %s comes first, and has to wait for %v", pioneer.who, maxTTL)
	if err := v.contendUntil(ctx, before, func(ctx context.Context) error { return v.contend(ctx, pioneer) }); err != nil {
		return err
	}
	if err := pioneer.guarded(ctx); err != nil {
		return err
	}
	v.Say("   it has had its turns, and all nodes are guarded")
	follower, err := v.open("guarded-2", guard)
	if err != nil {
		return err
	}
	if err := v.contend(ctx, append(before, pioneer, follower)...); err != nil {
		return err
	}
	v.Say("   %s has followed; both exclude the workers without the guard, which leave now", follower.who)
	if err := v.contend(ctx, pioneer, follower); err != nil {
		return err
	}
	return v.straggler(ctx)
}

// straggler is a forgotten client without the guard that starts when all others are guarded.
func (v *service) straggler(ctx context.Context) error {
	late, err := v.open("straggler", func([]string) []redlock.Option { return nil })
	if err != nil {
		return err
	}
	if err := late.try(ctx, another, time.Now().Add(time.Hour)); !errors.Is(err, redlock.ErrUnfit) {
		return errors.Join(errors.New("a client without the guard should be refused"), err)
	}
	v.Say("   a client without the guard and without exceptions is refused by every node.")
	v.Say("%d turns, and never two workers inside at once.", v.ledger.total())
	return nil
}

// unmarked returns an error if a server has a marker of the guard: clients with the guard use it,
// or this example has run on it.
func (v *service) unmarked(ctx context.Context) error {
	c, err := v.open("inspector", forNow)
	if err != nil {
		return err
	}
	states, err := c.states(ctx)
	if err == nil && slices.ContainsFunc(states, func(s string) bool { return s != "" }) {
		err = fmt.Errorf("the nodes are guarded already (%s): use others, or stop all clients and delete redlock:guard on each", states)
	}
	return err
}
