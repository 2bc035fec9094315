package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // registers the driver
)

const schema = `
CREATE TABLE account (
  id      INTEGER PRIMARY KEY,
  balance INTEGER NOT NULL,
  fence   INTEGER NOT NULL DEFAULT 0,  -- the largest fence that was accepted,
  lock_id TEXT    NOT NULL DEFAULT ''  -- and its Lock.ID
);
INSERT INTO account (id, balance) VALUES (1, 100);
`

// blind always writes. fenced writes only for a fence that [redlock.AcceptFence] accepts, and
// stores that fence. Check and write are one statement of one transaction, so no other write can
// come between them.
//
// fencedRead stores it too: what depends on the balance that was read would otherwise overwrite the write of an
// earlier holder that came between.
const (
	blind      = `UPDATE account SET balance = ?1, fence = ?2, lock_id = ?3 WHERE id = 1`
	accepts    = ` AND (?2 > fence OR ?2 = fence AND ?3 = lock_id)`
	fenced     = blind + accepts
	blindRead  = `SELECT balance FROM account WHERE id = 1`
	fencedRead = `UPDATE account SET fence = ?2, lock_id = ?3 WHERE id = ?1` + accepts + ` RETURNING balance`
)

var errTurnedAway = errors.New("turned away: the account has seen a larger fence")

// bank is the protected resource: a table in a SQLite file.
type bank struct {
	db     *sql.DB
	update string
}

// openBank creates a bank with one account, which holds 100.
func openBank(ctx context.Context, path string, checks bool) (*bank, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	b := &bank{db: db, update: blind}
	if checks {
		b.update = fenced
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return b, nil
}

func (b *bank) checks() bool { return b.update == fenced }

// read returns the balance for the holder of a lock.
func (b *bank) read(ctx context.Context, fence int64, lockID string) (balance int, err error) {
	if !b.checks() {
		return b.balance(ctx)
	}
	err = b.db.QueryRowContext(ctx, fencedRead, 1, fence, lockID).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errTurnedAway
	}
	return balance, err
}

// balance returns the balance for one who does not write.
func (b *bank) balance(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, blindRead).Scan(&n)
	return n, err
}

// write sets the balance on behalf of the holder of a lock. It returns errTurnedAway if the check
// rejects the fence; then nothing changes.
func (b *bank) write(ctx context.Context, balance int, fence int64, lockID string) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	result, err := tx.ExecContext(ctx, b.update, balance, fence, lockID)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	switch {
	case err != nil:
		return err
	case rows == 0:
		return errTurnedAway
	}
	return tx.Commit()
}
