package sqlfence_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
)

func TestPostgres(t *testing.T) {
	run(t, openPostgres)
}

// Two transactions that each read what the other one writes cannot both commit.
func TestACommitThatPostgresRejectsIsRetryable(t *testing.T) {
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
