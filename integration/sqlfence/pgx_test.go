package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// The statements and the decisions are those of Fences.Check, which the suite tests. These tests show that pgx
// executes them.
func TestPgx(t *testing.T) {
	t.Parallel()
	nodes := redistest.Start(t, 3)
	url := postgres.open(t)
	s := &suite{
		nodes: nodes, first: openLocker(t, nodes), second: openLocker(t, nodes), namespace: "pgx",
		database: open(t, sqlfence.Postgres, "pgx", url, "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
	}
	s.blocked = postgresBlocked
	s.fences = s.database.fences(t, s.namespace)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })

	for name, beginOn := range map[string]func(context.Context) (pgx.Tx, error){"a connection": conn.Begin, "a pool": pool.Begin} {
		t.Run(name, func(t *testing.T) { testPgxOrder(t, s, beginOn) })
		t.Run(name+" waits", func(t *testing.T) { testPgxWait(t, s, beginOn) })
	}
	t.Run("a lock ends during the wait", func(t *testing.T) { testPgxLost(t, s, pool) })
	t.Run("a nested transaction", func(t *testing.T) { testPgxNested(t, s, conn) })
}

func beginPgx(t *testing.T, beginOn func(context.Context) (pgx.Tx, error)) pgx.Tx {
	t.Helper()
	tx, err := beginOn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // has no effect after a commit
	return tx
}

func testPgxOrder(t *testing.T, s *suite, beginOn func(context.Context) (pgx.Tx, error)) {
	t.Helper()
	name := t.Name()
	older, newer := s.overlap(t, name)
	for _, lock := range []*redlock.Lock{older, newer} {
		tx := beginPgx(t, beginOn)
		require.NoError(t, sqlfence.CheckPgx(t.Context(), s.fences, tx, lock))
		require.NoError(t, tx.Commit(t.Context()))
		s.requireRow(t, name, lock)
	}
	tx := beginPgx(t, beginOn)
	require.ErrorIs(t, sqlfence.CheckPgx(t.Context(), s.fences, tx, older), sqlfence.ErrStale)
	require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxClosed)
	s.requireRow(t, name, newer)
}

func testPgxWait(t *testing.T, s *suite, beginOn func(context.Context) (pgx.Tx, error)) {
	t.Helper()
	lock := acquire(t, s.first, t.Name())
	first := begin(t, s.DB, sql.LevelDefault)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	var pid int
	require.NoError(t, first.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))

	second := beginPgx(t, beginOn)
	err := sqlfence.CheckPgx(t.Context(), s.fencesThatWait(t, s.namespace, 50*time.Millisecond), second, lock)
	require.ErrorIs(t, err, sqlfence.ErrRetry)
	require.ErrorContains(t, err, fmt.Sprintf("; open transactions: process %d (idle in transaction, open for ", pid))
	require.ErrorIs(t, second.Commit(t.Context()), pgx.ErrTxClosed)

	third := beginPgx(t, beginOn) // on the same connection, if there is one
	var bound string
	require.NoError(t, third.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&bound))
	require.Equal(t, "0", bound)
	require.NoError(t, s.finish(t.Context(), first, lock))
	require.NoError(t, sqlfence.CheckPgx(t.Context(), s.fences, third, lock))
	require.NoError(t, third.Commit(t.Context()))
}

func testPgxLost(t *testing.T, s *suite, pool *pgxpool.Pool) {
	t.Helper()
	name := t.Name()
	lock := acquire(t, s.first, name)
	first, second := begin(t, s.DB, sql.LevelDefault), beginPgx(t, pool.Begin)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	result := make(chan error, 1)
	go func() { result <- sqlfence.CheckPgx(lock.Context(), s.fences, second, lock) }()
	_, done := s.awaitBlocked(t, result)
	require.False(t, done)
	s.deleteEverywhere(t, name)
	require.ErrorIs(t, lock.Check(t.Context()), redlock.ErrLost)
	err := <-result
	require.ErrorIs(t, err, redlock.ErrLost)
	require.NotErrorIs(t, err, sqlfence.ErrRetry)
	require.Error(t, second.Commit(t.Context()))
	require.NoError(t, s.finish(t.Context(), first, lock))
}

// Check must not be called in a nested transaction. If it is, and waits too long, the outer transaction
// cannot be committed without what it has written before.
func testPgxNested(t *testing.T, s *suite, conn *pgx.Conn) {
	t.Helper()
	lock := acquire(t, s.first, t.Name())
	first := begin(t, s.DB, sql.LevelDefault)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	outer := beginPgx(t, conn.Begin)
	_, err := outer.Exec(t.Context(), "INSERT INTO journal (name, fence) VALUES ('nested', 1)")
	require.NoError(t, err)
	nested := beginPgx(t, outer.Begin)
	require.ErrorIs(t, sqlfence.CheckPgx(t.Context(), s.fencesThatWait(t, s.namespace, 50*time.Millisecond), nested, lock), sqlfence.ErrRetry)
	_, err = outer.Exec(t.Context(), "INSERT INTO journal (name, fence) VALUES ('nested', 2)")
	require.Error(t, err)
	require.ErrorIs(t, outer.Commit(t.Context()), pgx.ErrTxCommitRollback)
	require.Empty(t, s.journal(t, "nested"))
}
