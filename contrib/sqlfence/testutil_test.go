package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
)

// statement is what the driver was asked to execute.
type statement struct {
	query string
	args  []any
}

// reply is what a statement returns.
type reply struct {
	err     error // of the statement
	rows    [][]driver.Value
	rowsErr error // after the rows
}

// script is a database that answers by a function, and records what it is asked for. It is used by
// one goroutine.
type script struct {
	answer             func(statement) reply
	statements         []statement
	commits, rollbacks int
	rollbackErr        error
}

func begin(t *testing.T, s *script) *sql.Tx {
	t.Helper()
	db := sql.OpenDB(s)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	return tx
}

func (s *script) Connect(context.Context) (driver.Conn, error) { return conn{s}, nil }
func (s *script) Driver() driver.Driver                        { return nil }

func (s *script) run(query string, args []driver.NamedValue) reply {
	one := statement{query: query}
	for _, arg := range args {
		one.args = append(one.args, arg.Value)
	}
	s.statements = append(s.statements, one)
	return s.answer(one)
}

type conn struct{ *script }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not in use") }
func (c conn) Close() error                        { return nil }
func (c conn) Begin() (driver.Tx, error)           { return c, nil }
func (c conn) Commit() error                       { c.commits++; return nil }
func (c conn) Rollback() error                     { c.rollbacks++; return c.rollbackErr }

func (c conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), c.run(query, args).err
}

func (c conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r := c.run(query, args)
	if r.err != nil {
		return nil, r.err
	}
	return &rows{reply: r}, nil
}

type rows struct{ reply }

func (r *rows) Columns() []string {
	if len(r.rows) == 0 {
		return []string{"name"}
	}
	return make([]string, len(r.rows[0]))
}

func (r *rows) Close() error { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		if r.rowsErr != nil {
			return r.rowsErr
		}
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// lock is a lock with these properties.
type lock struct {
	names []string
	id    string
	fence int64
	ctx   context.Context
}

func (l lock) Names() []string          { return l.names }
func (l lock) ID() string               { return l.id }
func (l lock) Fence() int64             { return l.fence }
func (l lock) Context() context.Context { return l.ctx }

func held(t *testing.T, names ...string) lock {
	t.Helper()
	return lock{names: names, id: "holder", fence: 7, ctx: t.Context()}
}

func newFences(t *testing.T, dialect sqlfence.Dialect) *sqlfence.Fences {
	t.Helper()
	f, err := sqlfence.New(sqlfence.Config{Dialect: dialect, Namespace: "nodes", KeyPrefix: "app:"})
	require.NoError(t, err)
	return f
}
