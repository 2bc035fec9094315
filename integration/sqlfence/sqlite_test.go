package sqlfence_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	run(t, openSQLite)
}

// A transaction that reads first sees the database as it was then. So it cannot write after another
// one has: SQLite answers SQLITE_BUSY_SNAPSHOT.
func TestACheckAfterAReadIsRejectedBySQLite(t *testing.T) {
	t.Parallel()
	s := &suite{first: openLocker(t, redistest.Start(t, 3)), database: openSQLite(t), namespace: "snapshot"}
	s.fences = s.database.fences(t, s.namespace)
	lock := acquire(t, s.first, "snapshot")
	late := begin(t, s.DB, sql.LevelDefault)
	var n int
	require.NoError(t, late.QueryRowContext(t.Context(), "SELECT count(*) FROM journal").Scan(&n))
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
	err := s.fences.Check(t.Context(), late, lock)
	require.ErrorIs(t, err, sqlfence.ErrRetry)
	require.ErrorContains(t, err, "517")
	require.ErrorIs(t, late.Commit(), sql.ErrTxDone)
}

// Without WAL a commit has to wait for those that read.
func TestACommitThatSQLiteRejectsIsRetryable(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	defer db.Close()
	for _, query := range []string{"CREATE TABLE numbers (n)", "INSERT INTO numbers VALUES (1), (2)"} {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	reader, writer := begin(t, db, sql.LevelDefault), begin(t, db, sql.LevelDefault)
	var n int
	require.NoError(t, reader.QueryRowContext(t.Context(), "SELECT sum(n) FROM numbers").Scan(&n))
	_, err = writer.ExecContext(t.Context(), "DELETE FROM numbers")
	require.NoError(t, err)
	err = writer.Commit()
	require.Error(t, err)
	require.True(t, sqlfence.Retryable(err), "%v", err)
	require.NoError(t, reader.Commit())
}

// The connection's busy_timeout bounds the wait. The error says which lock has waited.
func TestTheWaitOnSQLiteIsThatOfTheConnection(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	lock := acquire(t, openLocker(t, redistest.Start(t, 3)), "waits")
	hasty, err := sql.Open("sqlite", d.file+"&_pragma=busy_timeout(50)")
	require.NoError(t, err)
	defer hasty.Close()
	first, second := begin(t, d.DB, sql.LevelDefault), begin(t, hasty, sql.LevelDefault)
	fences := d.fences(t, "waits")
	require.NoError(t, fences.Check(t.Context(), first, lock))
	err = fences.Check(t.Context(), second, lock)
	require.ErrorIs(t, err, sqlfence.ErrRetry)
	require.ErrorContains(t, err, fmt.Sprintf(`(fence %d of lock %s on "waits"): database is locked`, lock.Fence(), lock.ID()))
	require.ErrorIs(t, second.Commit(), sql.ErrTxDone)
	require.NoError(t, first.Commit())
}
