package sqlfence

import (
	"context"
	"database/sql"
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

// A Tx is a transaction. *sql.Tx implements it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Rollback() error
}

// A Lock is what Check needs to know of a lock. *redlock.Lock implements it.
type Lock interface {
	Names() []string
	ID() string
	Fence() int64
	Context() context.Context
}

var (
	_ Tx   = (*sql.Tx)(nil)
	_ Lock = (*redlock.Lock)(nil)
)

// Check accepts the lock's fence for all of its names, or returns an error. It accepts a fence that
// is larger than the last one that was accepted, or equal and from a lock with the same ID
// (redlock.AcceptFence). The accepted fence is stored when tx commits.
//
// Check must be the first statement of the transaction. What tx reads before may be older than the
// last holder's write. Check waits for the transactions of other holders that have called it for one
// of the names, until ctx ends or the database stops the wait. ctx is usually lock.Context(). The
// rows of the names stay locked until tx ends.
//
// If Check returns an error it has rolled tx back, so a later Commit returns sql.ErrTxDone. The error
// matches:
//
//   - ErrStale if a later holder has written;
//   - ErrRetry and the driver's error if the database rejected the transaction because of a concurrent
//     one: begin a new transaction while the lock is held;
//   - the cause of lock.Context() if the lock has ended, before Check or during it. If it ended before,
//     Check executes nothing. If it ended during a statement that failed, the error also matches the
//     driver's error, and it never matches ErrRetry;
//   - the driver's error otherwise. If ctx has ended, the error also matches the cause of ctx.
//
// Check executes nothing either if the fence is 0, or if the lock has no ID, no names, or an ID of
// more than 255 bytes.
func (f *Fences) Check(ctx context.Context, tx Tx, lock Lock) error {
	err := f.check(ctx, tx, lock)
	if err == nil {
		return nil
	}
	if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
		return fmt.Errorf("%w (the rollback failed as well: %w)", err, undo)
	}
	return err
}

func (f *Fences) check(ctx context.Context, tx Tx, lock Lock) error {
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
	switch {
	case err != nil && hold.Err() != nil:
		return &endedError{cause: context.Cause(hold), failure: err} //nolint:contextcheck // it is that of the lock
	case err != nil:
		return failed(ctx, err)
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

// failed returns the error of a Check whose statement failed while the lock was held.
func failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if Retryable(err) {
		return fmt.Errorf("%w: %w", ErrRetry, err)
	}
	return fmt.Errorf("sqlfence: check the fence: %w", err)
}

// endedError is the error of a Check whose lock ended during a statement that failed. Retryable is
// false for it, whatever the driver's error is.
type endedError struct{ cause, failure error }

func (e *endedError) Error() string {
	return fmt.Sprintf("sqlfence: the lock has ended: %v (the check failed: %v)", e.cause, e.failure)
}

func (e *endedError) Unwrap() []error { return []error{e.cause, e.failure} }

// upsert stores the fence for all names with one statement, and returns those that rejected it. The
// database locks the rows in the order of names. A row that is locked by another transaction is
// compared when that transaction has ended.
func (f *Fences) upsert(ctx context.Context, tx Tx, names []string, owner string, fence int64) (stale []string, err error) {
	mark := "$"
	if f.dialect == SQLite {
		mark = "?"
	}
	args := []any{f.namespace, f.prefix, fence, owner}
	values := make([]string, len(names))
	for i, name := range names {
		args = append(args, name)
		values[i] = "(@1, @2, @" + strconv.Itoa(len(args)) + ", @3, @4, CURRENT_TIMESTAMP)"
	}
	rows, err := tx.QueryContext(ctx, strings.ReplaceAll(
		"INSERT INTO "+f.table+" AS t (namespace, key_prefix, name, fence, owner, checked_at) VALUES "+strings.Join(values, ", ")+
			" ON CONFLICT (namespace, key_prefix, name) DO UPDATE"+
			" SET fence = excluded.fence, owner = excluded.owner, checked_at = excluded.checked_at"+
			" WHERE t.fence < excluded.fence OR (t.fence = excluded.fence AND t.owner = excluded.owner)"+
			" RETURNING name", "@", mark), args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	accepted := make(map[string]bool, len(names))
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		accepted[name] = true
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return accepted[name] }), nil
}

// lockAndUpdate stores the fence for one name after the other, up to the first that rejects it. It
// reads each row when the row is locked. How many rows a statement affects says nothing: an equal
// fence of the same owner changes none.
func (f *Fences) lockAndUpdate(ctx context.Context, tx Tx, names []string, owner string, fence int64) (stale []string, err error) {
	const key = " WHERE namespace = ? AND key_prefix = ? AND name = ?"
	for _, name := range names {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+f.table+" (namespace, key_prefix, name, fence, owner, checked_at)"+
			" VALUES (?, ?, ?, 0, '', UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE name = name", f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
		seen, seenOwner, err := readRow(ctx, tx, "SELECT fence, owner FROM "+f.table+key+" FOR UPDATE", f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
		if !redlock.AcceptFence(seen, seenOwner, fence, owner) {
			return []string{name}, nil
		}
		_, err = tx.ExecContext(ctx, "UPDATE "+f.table+" SET fence = ?, owner = ?, checked_at = UTC_TIMESTAMP(6)"+key,
			fence, owner, f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func readRow(ctx context.Context, tx Tx, query string, key ...any) (fence int64, owner string, err error) {
	rows, err := tx.QueryContext(ctx, query, key...)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		// The row was inserted before. Its name may have been truncated: not every mode of MySQL
		// rejects a name that is too long.
		if err := rows.Err(); err != nil {
			return 0, "", err
		}
		return 0, "", fmt.Errorf("the row is not in the table: %w", sql.ErrNoRows)
	}
	if err := rows.Scan(&fence, &owner); err != nil {
		return 0, "", err
	}
	return fence, owner, rows.Err()
}
