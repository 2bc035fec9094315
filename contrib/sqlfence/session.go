package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A Tx is a transaction. *sql.Tx implements it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Rollback() error
}

var _ Tx = (*sql.Tx)(nil)

// A PgxTx is a transaction of pgx: a pgx.Tx or a *pgxpool.Tx. R is then pgx.Rows.
type PgxTx[R PgxRows] interface {
	Query(ctx context.Context, sql string, args ...any) (R, error)
	Rollback(ctx context.Context) error
}

// PgxRows are the rows of a query of pgx. pgx.Rows implements it.
type PgxRows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// CheckPgx is Fences.Check for a transaction of pgx, the driver of PostgreSQL, if the program uses it without
// database/sql. This package does not import pgx, and the compiler infers R:
//
//	err := sqlfence.CheckPgx(ctx, fences, tx, lock)
//
// The Dialect of the Fences must be Postgres. After an error a Commit returns pgx.ErrTxClosed. tx must not be a
// nested transaction (tx.Begin): its rollback would leave the outer one.
func CheckPgx[R PgxRows](ctx context.Context, fences *Fences, tx PgxTx[R], lock Lock) error {
	if fences.dialect != Postgres {
		return errors.Join(fmt.Errorf("sqlfence: CheckPgx needs the Dialect Postgres, not %v", fences.dialect), tx.Rollback(ctx))
	}
	return fences.checkIn(ctx, pgxSession[R]{tx}, lock)
}

// A session is a transaction of any driver.
type session interface {
	exec(ctx context.Context, query string, args ...any) error
	// query calls each for every row.
	query(ctx context.Context, each func(scanner) error, query string, args ...any) error
	rollback(ctx context.Context) error
}

// A scanner copies the columns of a row.
type scanner func(dest ...any) error

type sqlSession struct{ tx Tx }

func (s sqlSession) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.tx.ExecContext(ctx, query, args...)
	return err
}

func (s sqlSession) query(ctx context.Context, each func(scanner) error, query string, args ...any) (err error) {
	rows, err := s.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s sqlSession) rollback(context.Context) error {
	if err := s.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

type pgxSession[R PgxRows] struct{ tx PgxTx[R] }

func (s pgxSession[R]) exec(ctx context.Context, query string, args ...any) error {
	return s.query(ctx, nil, query, args...)
}

func (s pgxSession[R]) query(ctx context.Context, each func(scanner) error, query string, args ...any) error {
	rows, err := s.tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rollback returns no error: pgx closes a connection on which a rollback fails, so nothing can be committed.
func (s pgxSession[R]) rollback(ctx context.Context) error {
	_ = s.tx.Rollback(ctx)
	return nil
}
