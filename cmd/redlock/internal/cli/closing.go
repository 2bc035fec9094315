package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// CloseIn closes a Locker unless ctx has ended: Close would then wait for the node timeout.
func CloseIn(ctx context.Context, l *redlock.Locker) {
	if ctx.Err() == nil {
		_ = l.Close(ctx)
	}
}

// CloseSoon closes a Locker, and waits for its nodes at most for CloseTimeout.
func CloseSoon(l *redlock.Locker) { closeWithin(l, CloseTimeout) }

func closeWithin(l *redlock.Locker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = l.Close(ctx) // the release has reported what could not be undone
}

// CloseAfterAcquire closes the Locker of an acquire that ends with this status. Close waits for the undos
// of refused attempts, at nodes that do not answer. If the claim is printed its time runs, but a script
// waits until this process ends.
func CloseAfterAcquire(locker *redlock.Locker, exit int) {
	if exit == ExitOK {
		closeWithin(locker, AnswerTimeout)
		return
	}
	CloseSoon(locker)
}

// errNotAllAnswered reports a release that was sent but not confirmed within CloseTimeout.
var errNotAllAnswered = errors.New("some nodes did not confirm the release in time; remaining keys expire")

// Release releases the lock and waits for the nodes until ctx is done. Release runs in a
// goroutine because it waits for the node timeout and does not stop when ctx is done.
func Release(ctx context.Context, lock *redlock.Lock) error {
	done := make(chan error, 1)
	go func() { done <- lock.Release(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", lock.Names()[0], errNotAllAnswered)
	}
}
