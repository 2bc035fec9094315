package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// Settler is the service under test. It settles an invoice step by step, and only one process may do
// that at a time.
type Settler struct {
	locker *redlock.Locker
	step   func() (last bool)
}

// ErrInterrupted reports that the lock was lost during the work. Another process may have begun the
// work again.
var ErrInterrupted = errors.New("interrupted: the lock was lost")

// Settle takes no further step once the lock is lost.
func (s *Settler) Settle(ctx context.Context, invoice int) error {
	err := s.locker.Do(ctx, fmt.Sprintf("invoice/%d", invoice), 30*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		for ctx.Err() == nil {
			if s.step() {
				return nil
			}
		}
		return context.Cause(ctx)
	})
	if errors.Is(err, redlock.ErrLost) {
		return ErrInterrupted
	}
	return err
}

// A service loses its lock during the work. In your test, t is the *testing.T.
func Example() {
	t := &exampleT{}
	defer t.end()

	q := redlocktest.New(t, 3)
	steps := 0
	s := &Settler{locker: q.Locker()}
	s.step = func() bool {
		if steps++; steps == 2 {
			q.ExpireNow("invoice/42") // this process was paused for too long
		}
		return steps == 4
	}
	err := s.Settle(context.Background(), 42)
	fmt.Println(errors.Is(err, ErrInterrupted), "after", steps, "steps")
	// Output: true after 2 steps
}

// Another owner holds the lock, and then no quorum can be reached.
func ExampleQuorum_HoldElsewhere() {
	t := &exampleT{}
	defer t.end()

	q := redlocktest.New(t, 3)
	locker := q.Locker(redlock.WithNodeTimeout(20 * time.Second)) // a busy machine may answer late

	release := q.HoldElsewhere("invoice/42", time.Minute)
	_, err := locker.TryAcquire(context.Background(), "invoice/42", time.Minute)
	fmt.Println("held:", errors.Is(err, redlock.ErrHeld))

	release()
	q.LoseMajority()
	_, err = locker.TryAcquire(context.Background(), "invoice/42", time.Minute)
	fmt.Println("no quorum:", errors.Is(err, redlock.ErrNoQuorum))

	q.Restore()
	_, err = locker.TryAcquire(context.Background(), "invoice/42", time.Minute)
	fmt.Println("acquired:", err == nil)
	// Output:
	// held: true
	// no quorum: true
	// acquired: true
}

// Another owner gets the lock although it is held. Only the fence shows the resource which holder is
// late.
func ExampleQuorum_StealLock() {
	t := &exampleT{}
	defer t.end()

	q := redlocktest.New(t, 3)
	ctx := context.Background()
	locker := q.Locker(redlock.WithNodeTimeout(20 * time.Second)) // a busy machine may answer late
	lock, err := locker.Acquire(ctx, "invoice/42", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	q.StealLock("invoice/42", time.Minute)
	fmt.Println("believes in it:", lock.Remaining() > 0)
	fmt.Println("asks:", errors.Is(lock.Check(ctx), redlock.ErrLost))
	fmt.Println("knows:", errors.Is(lock.Err(), redlock.ErrLost))
	// Output:
	// believes in it: true
	// asks: true
	// knows: true
}

// The same in a bubble, where time is virtual: the nodes are down for longer than the lock is valid.
func TestASettlementEndsWhenItsLockCannotBeExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		began, steps := time.Now(), 0
		s := &Settler{locker: q.Locker(), step: func() bool {
			if steps++; steps == 3 {
				q.LoseMajority()
			}
			time.Sleep(time.Second) // virtual
			return false
		}}
		require.ErrorIs(t, s.Settle(t.Context(), 42), ErrInterrupted)
		require.Less(t, time.Since(began), 35*time.Second, "the TTL, the step under way, and what it did before")
	})
}

// exampleT takes the place of a *testing.T.
type exampleT struct{ cleanups []func() }

func (t *exampleT) Helper() {}

func (t *exampleT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *exampleT) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
