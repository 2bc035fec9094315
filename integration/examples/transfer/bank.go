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
  id      TEXT    PRIMARY KEY,
  balance INTEGER NOT NULL,
  fence   INTEGER NOT NULL DEFAULT 0,  -- the largest fence that was accepted,
  lock_id TEXT    NOT NULL DEFAULT ''  -- and its Lock.ID
)`

// write sets a balance if redlock.AcceptFence accepts the fence, and stores that fence.
const write = `UPDATE account SET balance = ?2, fence = ?3, lock_id = ?4 WHERE id = ?1 AND (?3 > fence OR ?3 = fence AND ?4 = lock_id)`

// read has an account turn away smaller fences from now on, and returns its balance. Otherwise an earlier holder that is
// late could write between this reading and the writing, and its write would be lost.
const read = `UPDATE account SET fence = ?2, lock_id = ?3 WHERE id = ?1 AND (?2 > fence OR ?2 = fence AND ?3 = lock_id) RETURNING balance`

var errTurnedAway = errors.New("turned away: the account has seen a larger fence")

// bank is the protected resource: a table in a SQLite file.
type bank struct{ db *sql.DB }

// openBank creates a bank whose accounts each hold the balance.
func openBank(ctx context.Context, path string, accounts []string, balance int) (*bank, error) {
	// The file is deleted at the end: nothing has to survive a crash.
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(20000)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, schema)
	for _, id := range accounts {
		if err == nil {
			_, err = db.ExecContext(ctx, `INSERT INTO account (id, balance) VALUES (?, ?)`, id, balance)
		}
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return &bank{db}, nil
}

// readAll returns balances for the holder of a lock.
func (b *bank) readAll(ctx context.Context, fence int64, lockID string, ids ...string) (balances []int, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	for _, id := range ids {
		var n int
		err := tx.QueryRowContext(ctx, read, id, fence, lockID).Scan(&n)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, fmt.Errorf("account %s: %w", id, errTurnedAway)
		case err != nil:
			return nil, err
		}
		balances = append(balances, n)
	}
	return balances, tx.Commit()
}

// total returns the sum of all balances and the smallest of them.
func (b *bank) total(ctx context.Context) (sum, least int, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT sum(balance), min(balance) FROM account`).Scan(&sum, &least)
	return sum, least, err
}

// entry is the new balance of an account.
type entry struct {
	id      string
	balance int
}

// writeAll writes all entries or none: check and write are one transaction. The lock has one fence
// for all its names, and each account stores the fence.
func (b *bank) writeAll(ctx context.Context, fence int64, lockID string, entries ...entry) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	for _, e := range entries {
		result, err := tx.ExecContext(ctx, write, e.id, e.balance, fence, lockID)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		switch {
		case err != nil:
			return err
		case rows == 0:
			return fmt.Errorf("account %s: %w", e.id, errTurnedAway)
		}
	}
	return tx.Commit()
}
