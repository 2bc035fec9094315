package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	run(t, openPostgres)
}

// Two transactions that each read what the other one writes cannot both commit.
func TestACommitThatPostgresRejectsIsRetryable(t *testing.T) {
	t.Parallel()
	d := openPostgres(t)
	var errs []error
	first, second := begin(t, d.DB, sql.LevelSerializable), begin(t, d.DB, sql.LevelSerializable)
	for _, tx := range []*sql.Tx{first, second} {
		var n int
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM journal").Scan(&n))
		_, err := tx.ExecContext(t.Context(), "INSERT INTO journal (name, fence) VALUES ('skew', 1)")
		require.NoError(t, err)
	}
	for _, tx := range []*sql.Tx{first, second} {
		if err := tx.Commit(); err != nil {
			errs = append(errs, err)
		}
	}
	require.Len(t, errs, 1)
	require.True(t, sqlfence.Retryable(errs[0]), "%v", errs)
}

// The transaction has the smaller of its own bound and that of the Fences.
func TestTheWaitOnPostgresIsTheSmallerBound(t *testing.T) {
	t.Parallel()
	d := openPostgres(t)
	lock := acquire(t, openLocker(t, redistest.Start(t, 3)), "smaller")
	for set, want := range map[string]string{"0": "1500ms", "1ms": "1ms", "1s": "1s", "1500ms": "1500ms", "1501ms": "1500ms", "1h": "1500ms", "24d": "1500ms"} {
		tx := begin(t, d.DB, sql.LevelDefault)
		_, err := tx.ExecContext(t.Context(), "SET LOCAL lock_timeout = '"+set+"'")
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, d.fencesThatWait(t, "smaller", 1500*time.Millisecond).Check(t.Context(), tx, lock))
			var bound string
			require.NoError(t, tx.QueryRowContext(t.Context(), "SHOW lock_timeout").Scan(&bound))
			require.Equal(t, want, bound, "of %s", set)
		}
		require.NoError(t, tx.Rollback())
	}
}

// A user who may not see what others do gets less, and no other error.
func TestAUserWithoutRightsIsToldTheProcess(t *testing.T) {
	t.Parallel()
	url := postgres.open(t)
	d := open(t, sqlfence.Postgres, "pgx", url+"?application_name=billing", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	d.exec(t, "CREATE ROLE clerk LOGIN PASSWORD '"+password+"'")
	t.Cleanup(func() { // other tests have the same roles
		for _, statement := range []string{"DROP OWNED BY clerk", "DROP ROLE clerk"} {
			_, err := d.ExecContext(context.Background(), statement)
			require.NoError(t, err)
		}
	})
	d.exec(t, "GRANT SELECT, INSERT, UPDATE ON redlock_fences TO clerk")
	clerk, err := sql.Open("pgx", strings.Replace(url, "postgres:"+password, "clerk:"+password, 1))
	require.NoError(t, err)
	defer clerk.Close()
	lock := acquire(t, openLocker(t, redistest.Start(t, 3)), "rights")
	first, second := begin(t, d.DB, sql.LevelDefault), begin(t, clerk, sql.LevelDefault)
	require.NoError(t, d.fences(t, "rights").Check(t.Context(), first, lock))
	var pid int
	require.NoError(t, first.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	err = d.fencesThatWait(t, "rights", 50*time.Millisecond).Check(t.Context(), second, lock)
	require.ErrorIs(t, err, sqlfence.ErrRetry)
	require.ErrorContains(t, err, fmt.Sprintf(`; open transactions: process %d (application "billing")): `, pid))
}

// The statement of the README shows who waits for whom. The wait ends with the process that it shows.
func TestTheStatementOfTheREADMEShowsWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	d := openPostgres(t)
	fences := d.fences(t, "locks-1")
	lock := acquire(t, openLocker(t, redistest.Start(t, 3)), "waits")
	first, second := begin(t, d.DB, sql.LevelDefault), begin(t, d.DB, sql.LevelDefault)
	require.NoError(t, fences.Check(t.Context(), first, lock))
	var pids [2]int
	for i, tx := range []*sql.Tx{first, second} {
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pids[i]))
	}
	result := make(chan error, 1)
	go func() { result <- fences.Check(t.Context(), second, lock) }()
	_, done := d.awaitBlocked(t, result)
	require.False(t, done)

	var waits, holds int
	var state, application, age string
	var client sql.NullString
	rows, err := d.QueryContext(t.Context(), blocks(t, " *sql")[0])
	require.NoError(t, err)
	for waits != pids[1] { // there are rows of other tests
		require.True(t, rows.Next(), "no row of the transaction that waits")
		require.NoError(t, rows.Scan(&waits, &holds, &state, &age, &application, &client))
	}
	require.NoError(t, rows.Close())
	require.Equal(t, pids[0], holds)
	require.Equal(t, "idle in transaction", state)

	var ended bool
	require.NoError(t, d.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1)", holds).Scan(&ended))
	require.True(t, ended)
	require.NoError(t, <-result)
	require.NoError(t, second.Commit())
}
