// Command migration shows a service that moves from redsync to this library in two deployments, without a pause. Its workers want one
// name all the time, and what the name protects finds out whether two were ever inside.
//
//	1  the fleet as it is: redsync.
//	2  the first deployment, worker by worker: this library on the same masters and keys. Both exclude each other. As soon as a master
//	   has a marker of the restart guard, clients without the guard refuse it; so that these go on then, they say already now that they
//	   are to be excepted (WithUnsafeNodes), and keep to the guard's maxTTL (WithMaxTTL).
//	3  the last redsync is gone.
//	4  the second deployment: the guard is switched on. One worker comes first: it waits for a whole maxTTL until the masters may vote
//	   for it, while the others go on. Then the rest follows, and those without the guard leave.
//
//	GOWORK=off go -C integration/peers run ./examples/migration                  three masters inside of this process
//	GOWORK=off go -C integration/peers run ./examples/migration --nodes URLs     yours, with commas between them
//
// Your masters keep the marker (redlock:guard) that step 4 leaves on them, and so this runs once on each; delete it for the next time.
// docs/migration.md and docs/operations.md have the steps in words.
//
// Exit status: 0 when it went as told, 1 when it did not, 2 for wrong usage.
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
	maxTTL  = 3 * time.Second  // of ours, and of the guard: a restarted master stays out for so long
	turns   = 10               // of each worker in each step

	// patience is for a busy machine that plays all parts at once. A service leaves out WithNodeTimeout.
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
		for _, end := range slices.Backward(v.closes) { // a Locker before its nodes, and those before their pools
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

// forNow are the options of the first deployment.
func forNow(nodes []string) []redlock.Option {
	return []redlock.Option{redlock.WithUnsafeNodes(nodes...), redlock.WithMaxTTL(maxTTL)}
}

// first is the first deployment: it returns who is there when the last redsync is gone.
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
		s.Say("   what %s holds, %s is refused", pair[0], pair[1])
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

// guard is what the second deployment adds, and all that it has of options.
func guard([]string) []redlock.Option { return []redlock.Option{redlock.WithRestartGuard(maxTTL)} }

// second is the second deployment.
func (v *service) second(ctx context.Context, before []client) error {
	pioneer, err := v.open("guarded-1", guard)
	if err != nil {
		return err
	}
	if err := pioneer.try(ctx, another); !errors.Is(err, redlock.ErrQuarantined) {
		return errors.Join(errors.New("the guard's first client should have to wait"), err)
	}
	v.Say("4  %s comes first, and has to wait for %v", pioneer.who, maxTTL)
	if err := v.goOnUntil(ctx, before, func(ctx context.Context) error { return v.contend(ctx, pioneer) }); err != nil {
		return err
	}
	if err := pioneer.guarded(ctx); err != nil {
		return err
	}
	v.Say("   it has had its turns, and all masters are guarded")
	follower, err := v.open("guarded-2", guard)
	if err != nil {
		return err
	}
	if err := v.contend(ctx, append(before, pioneer, follower)...); err != nil {
		return err
	}
	v.Say("   %s has followed, and both exclude those without the guard, who leave now", follower.who)
	if err := v.contend(ctx, pioneer, follower); err != nil {
		return err
	}
	return v.straggler(ctx)
}

// straggler is a client that nobody has thought of, and that comes when all others are guarded.
func (v *service) straggler(ctx context.Context) error {
	late, err := v.open("straggler", func([]string) []redlock.Option { return nil })
	if err != nil {
		return err
	}
	if err := late.try(ctx, another); !errors.Is(err, redlock.ErrUnfit) {
		return errors.Join(errors.New("a client without the guard should be refused"), err)
	}
	v.Say("   one that comes back without guard and exception is refused by every master.")
	v.Say("%d turns, and never two at once.", v.ledger.total())
	return nil
}

// unmarked refuses masters that clients with a guard use, or that this has been played on.
func (v *service) unmarked(ctx context.Context) error {
	look, err := v.open("look", forNow)
	if err != nil {
		return err
	}
	states, err := look.states(ctx)
	if err == nil && slices.ContainsFunc(states, func(s redlock.GuardState) bool { return s != "" }) {
		err = fmt.Errorf("the masters are guarded already (%s): take others, or when no client is running delete redlock:guard on each", states)
	}
	return err
}
