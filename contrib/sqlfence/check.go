package sqlfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/redlock"
)

// ErrStale is the error of a Check whose fence is too small: a later holder has written. The holder
// must stop its work, because a repeated transaction is rejected as well.
var ErrStale = errors.New("sqlfence: a later holder of the lock has written")

// maxOwner bounds Lock.ID, in bytes. That of a *redlock.Lock has 24.
const maxOwner = 255

// A Lock is what Check needs to know of a lock. *redlock.Lock implements it.
type Lock interface {
	Names() []string
	ID() string
	Fence() int64
	Context() context.Context
}

var _ Lock = (*redlock.Lock)(nil)

// Check accepts the lock's fence for all of its names, or returns an error. It accepts a fence that
// is larger than the last one that was accepted, or equal and from a lock with the same ID
// (redlock.AcceptFence). The accepted fence is stored when tx commits.
//
// Check must be the first statement of the transaction. What tx reads before may be older than the
// last holder's write. Check waits for the transactions of other holders that have called it for one
// of the names, until ctx ends and at most for Config.Wait. ctx is usually lock.Context(). The rows of
// the names stay locked until tx ends.
//
// If Check returns an error it has rolled tx back, so a later Commit returns sql.ErrTxDone. The error
// matches:
//
//   - ErrStale if a later holder has written;
//   - ErrRetry and the driver's error if the database rejected the transaction because of a concurrent
//     one, or if the wait took too long: begin a new transaction while the lock is held;
//   - the cause of lock.Context() if the lock has ended, before Check or during it. If it ended before,
//     Check executes nothing. If it ended during a statement that failed, the error also matches the
//     driver's error, and it never matches ErrRetry;
//   - the driver's error otherwise. If ctx has ended, the error also matches the cause of ctx.
//
// The text of an ErrRetry has the fence, the lock's ID and at most five names. If the wait took too long
// on PostgreSQL 12 or later, it also has the server processes of at most five open transactions that
// have written to the table. The oldest is the first: Check usually has waited for that one.
//
// Check executes nothing either if the fence is 0, or if the lock has no ID, no names, or an ID of
// more than 255 bytes.
func (f *Fences) Check(ctx context.Context, tx Tx, lock Lock) error {
	return f.checkIn(ctx, sqlSession{tx}, lock)
}

// checkIn checks the fence in a transaction of any driver.
func (f *Fences) checkIn(ctx context.Context, tx session, lock Lock) error {
	err := f.check(ctx, tx, lock)
	if err == nil {
		return nil
	}
	// ctx may have ended, and the connection goes back to its pool.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
	defer cancel()
	if undo := tx.rollback(limited); undo != nil {
		return fmt.Errorf("%w (the rollback failed as well: %w)", err, undo)
	}
	return err
}

func (f *Fences) check(ctx context.Context, tx session, lock Lock) error {
	owner, fence, hold := lock.ID(), lock.Fence(), lock.Context()
	var names []string
	for _, name := range lock.Names() {
		names = append(names, text(name))
	}
	switch {
	case fence <= 0:
		return errors.New("sqlfence: the lock has no fence: its Locker needs redlock.WithFencing")
	case hold.Err() != nil:
		return ended(hold) //nolint:contextcheck // it is that of the lock
	case owner == "" || len(owner) > maxOwner:
		return fmt.Errorf("sqlfence: the lock's ID has %d bytes, not 1 to %d", len(owner), maxOwner)
	case len(names) == 0:
		return errors.New("sqlfence: the lock has no names")
	}
	// Two transactions that lock common rows in the same order cannot deadlock.
	slices.Sort(names)
	names = slices.Compact(names)

	var stale []string
	var err error
	if f.dialect == MySQL {
		stale, err = f.lockAndUpdate(ctx, tx, names, owner, fence)
	} else {
		stale, err = f.upsert(ctx, tx, names, owner, fence)
	}
	failed := err
	if err != nil && hold.Err() == nil {
		failed = f.failed(ctx, tx, fmt.Sprintf("fence %d of lock %s on %s", fence, owner, quoted(names)), err)
	}
	switch {
	case err != nil && hold.Err() != nil: // perhaps since then
		return &endedError{cause: context.Cause(hold), failure: err} //nolint:contextcheck // it is that of the lock
	case err != nil:
		return failed
	case len(stale) > 0:
		return fmt.Errorf("%w: fence %d of %s is too small for the name %q", ErrStale, fence, owner, stale[0])
	case hold.Err() != nil: // a later holder may be about to write
		return ended(hold) //nolint:contextcheck // it is that of the lock
	}
	return nil
}

// ended returns the error of a Check whose lock has ended.
func ended(hold context.Context) error {
	return fmt.Errorf("sqlfence: the lock has ended: %w", context.Cause(hold))
}

// failed returns the error of a Check whose statement failed while the lock was held. who says for which
// lock it was executed.
func (f *Fences) failed(ctx context.Context, tx session, who string, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	switch {
	case !Retryable(err):
		return fmt.Errorf("sqlfence: check the fence: %w", err)
	case f.dialect == Postgres && anyInChain(err, isLockTimeout):
		if open := openTransactions(ctx, tx, f.table); open != "" {
			who += "; open transactions: " + open
		}
	}
	return fmt.Errorf("%w (%s): %w", ErrRetry, who, err)
}

// quoted lists at most five names.
func quoted(names []string) string {
	const most = 5
	list := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		list = append(list, strconv.Quote(name))
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), more)
	}
	return strings.Join(list, ", ")
}

// endedError is the error of a Check whose lock ended during a statement that failed. Retryable is
// false for it, whatever the driver's error is.
type endedError struct{ cause, failure error }

func (e *endedError) Error() string {
	return fmt.Sprintf("sqlfence: the lock has ended: %v (the check failed: %v)", e.cause, e.failure)
}

func (e *endedError) Unwrap() []error { return []error{e.cause, e.failure} }
