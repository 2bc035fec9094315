package sqlfence_test

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
)

// patience bounds the wait for what happens soon.
const patience = time.Minute

// startsWithin bounds the start of a database, which makes its files first. A busy machine takes more than
// a minute for that.
const startsWithin = 5 * time.Minute

// database is a database with an empty journal of writes. It has a table of fences.
type database struct {
	*sql.DB
	dialect sqlfence.Dialect

	// blocked counts the transactions that wait for a lock. It is empty if transactions do not wait,
	// but fail at once.
	blocked string

	// bound is the connection's bound for a wait. It is empty if transactions do not wait.
	bound string

	// rejects returns whether a transaction at an isolation level is rejected after it has waited for
	// another one, or instead of it.
	rejects func(sql.IsolationLevel) bool

	// file is the address of the database, if it is a file.
	file string

	// patient is the same database, whose transactions wait for each other.
	patient *sql.DB
}

// open opens a database. journal is the type of the journal's first column, which counts up.
func open(t testing.TB, dialect sqlfence.Dialect, driver, source, journal string) *database {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := &database{DB: db, dialect: dialect, patient: db}
	d.awaitReady(t)
	d.exec(t, "CREATE TABLE journal (id "+journal+", name VARCHAR(255) NOT NULL, fence BIGINT NOT NULL)")
	for range 2 { // once is enough
		d.exec(t, d.fences(t, "any").Schema())
	}
	return d
}

// awaitReady waits until a server that was just started answers.
func (d *database) awaitReady(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(startsWithin)
	for {
		err := d.PingContext(t.Context())
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "the database or the machine failed, and not the library: no answer after its start: %v", err)
		time.Sleep(20 * time.Millisecond)
	}
}

func openSQLite(t testing.TB) *database {
	t.Helper()
	// No test has a crash of the machine, and the disk of a busy one takes long for each commit.
	file := filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(off)"
	d := open(t, sqlfence.SQLite, "sqlite", file, "INTEGER PRIMARY KEY AUTOINCREMENT")
	d.file = file
	d.rejects = func(sql.IsolationLevel) bool { return true }
	var err error
	d.patient, err = sql.Open("sqlite", file+"&_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.patient.Close()) })
	return d
}

// statement replaces each ? by the dialect's parameter.
func (d *database) statement(query string) string {
	if d.dialect != sqlfence.Postgres {
		return query
	}
	for n := 1; strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", "$"+strconv.Itoa(n), 1)
	}
	return query
}

func (d *database) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := d.ExecContext(t.Context(), d.statement(query), args...)
	require.NoError(t, err)
}

// fences returns Fences of a namespace, which wait for as long as a test does.
func (d *database) fences(t testing.TB, namespace string) *sqlfence.Fences {
	t.Helper()
	return d.fencesThatWait(t, namespace, patience)
}

func (d *database) fencesThatWait(t testing.TB, namespace string, wait time.Duration) *sqlfence.Fences {
	t.Helper()
	f, err := sqlfence.New(sqlfence.Config{Dialect: d.dialect, Namespace: namespace, Wait: wait})
	require.NoError(t, err)
	return f
}

// row returns the stored fence of a name, and its owner. The fence is 0 if there is none.
func (d *database) row(t testing.TB, namespace, name string) (fence int64, owner string) {
	t.Helper()
	err := d.QueryRowContext(t.Context(), d.statement(
		"SELECT fence, owner FROM redlock_fences WHERE namespace = ? AND key_prefix = '' AND name = ?"), namespace, name).Scan(&fence, &owner)
	if err != nil {
		require.ErrorIs(t, err, sql.ErrNoRows)
	}
	return fence, owner
}

// journal returns the fences of all writes under a name, in the order of the writes.
func (d *database) journal(t testing.TB, name string) (fences []int64) {
	t.Helper()
	rows, err := d.QueryContext(t.Context(), d.statement("SELECT fence FROM journal WHERE name = ? ORDER BY id"), name)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var fence int64
		require.NoError(t, rows.Scan(&fence))
		fences = append(fences, fence)
	}
	require.NoError(t, rows.Err())
	return fences
}

// awaitBlocked waits until a transaction waits for a lock. It returns the result if there is one
// before.
func (d *database) awaitBlocked(t testing.TB, result <-chan error) (err error, done bool) { //nolint:revive // the error is a value here
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		select {
		case err := <-result:
			return err, true
		default:
		}
		if d.blocked != "" {
			var n int
			require.NoError(t, d.QueryRowContext(t.Context(), d.blocked).Scan(&n))
			if n > 0 {
				return nil, false
			}
		}
		require.True(t, time.Now().Before(deadline), "no transaction waits, nor has it ended")
		time.Sleep(time.Millisecond)
	}
}
