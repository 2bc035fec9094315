package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/redlock"
)

var dialects = []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MySQL, sqlfence.SQLite}

func TestNewChecksTheConfig(t *testing.T) {
	valid := sqlfence.Config{Dialect: sqlfence.Postgres, Namespace: "nodes"}
	for name, test := range map[string]struct {
		change func(*sqlfence.Config)
		err    string // empty if the config is valid
	}{
		"the defaults":         {func(*sqlfence.Config) {}, ""},
		"no dialect":           {func(c *sqlfence.Config) { c.Dialect = 0 }, "Dialect"},
		"an unknown dialect":   {func(c *sqlfence.Config) { c.Dialect = 4 }, "Dialect"},
		"a table":              {func(c *sqlfence.Config) { c.Table = "_fences2" }, ""},
		"a schema":             {func(c *sqlfence.Config) { c.Table = "app.fences" }, ""},
		"three parts":          {func(c *sqlfence.Config) { c.Table = "a.b.c" }, "Table"},
		"an empty part":        {func(c *sqlfence.Config) { c.Table = "a." }, "Table"},
		"an injection":         {func(c *sqlfence.Config) { c.Table = "fences; drop table x" }, "Table"},
		"a line break":         {func(c *sqlfence.Config) { c.Table = "fences\n" }, "Table"},
		"an upper-case table":  {func(c *sqlfence.Config) { c.Table = "Fences" }, "Table"},
		"a digit first":        {func(c *sqlfence.Config) { c.Table = "2fences" }, "Table"},
		"the longest table":    {func(c *sqlfence.Config) { c.Table = strings.Repeat("a", 63) }, ""},
		"a table too long":     {func(c *sqlfence.Config) { c.Table = strings.Repeat("a", 64) }, "Table"},
		"no namespace":         {func(c *sqlfence.Config) { c.Namespace = "" }, "Namespace"},
		"the longest":          {func(c *sqlfence.Config) { c.Namespace = strings.Repeat("a", 255) }, ""},
		"a namespace too long": {func(c *sqlfence.Config) { c.Namespace = strings.Repeat("a", 256) }, "Namespace"},
		"a namespace with NUL": {func(c *sqlfence.Config) { c.Namespace = "a\x00" }, "Namespace"},
		"not UTF-8":            {func(c *sqlfence.Config) { c.Namespace = "\xff" }, "Namespace"},
		"the shortest wait":    {func(c *sqlfence.Config) { c.Wait = time.Millisecond }, ""},
		"a wait too short":     {func(c *sqlfence.Config) { c.Wait = time.Millisecond - 1 }, "Wait"},
		"a negative wait":      {func(c *sqlfence.Config) { c.Wait = -time.Second }, "Wait"},
		"the longest wait":     {func(c *sqlfence.Config) { c.Wait = 24 * time.Hour }, ""},
		"a wait too long":      {func(c *sqlfence.Config) { c.Wait = 24*time.Hour + 1 }, "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			config := valid
			test.change(&config)
			f, err := sqlfence.New(config)
			if test.err == "" {
				require.NoError(t, err)
				require.NotNil(t, f)
				return
			}
			require.ErrorContains(t, err, "sqlfence: "+test.err)
			require.Nil(t, f)
		})
	}
}

func TestSchemaNamesTheTable(t *testing.T) {
	for _, dialect := range dialects {
		require.Contains(t, newFences(t, dialect).Schema(), "CREATE TABLE IF NOT EXISTS redlock_fences (")
		f, err := sqlfence.New(sqlfence.Config{Dialect: dialect, Namespace: "nodes", Table: "app.fences"})
		require.NoError(t, err)
		require.Contains(t, f.Schema(), "CREATE TABLE IF NOT EXISTS app.fences (")
	}
}

func TestDialectsHaveNames(t *testing.T) {
	require.Equal(t, "[Postgres MySQL SQLite]", fmt.Sprint(dialects))
	require.Equal(t, "Dialect(9)", sqlfence.Dialect(9).String())
}

// A lock that cannot be fenced is refused before the database is asked, and its transaction cannot
// commit.
func TestALockThatCannotBeFencedIsRefused(t *testing.T) {
	errOver := errors.New("over")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	for name, test := range map[string]struct {
		change func(*lock)
		text   string
		err    error
	}{
		"fence 0":       {func(l *lock) { l.fence = 0 }, "redlock.WithFencing", nil},
		"a lock's end":  {func(l *lock) { l.ctx = ended }, "the lock has ended", errOver},
		"no ID":         {func(l *lock) { l.id = "" }, "ID", nil},
		"a huge ID":     {func(l *lock) { l.id = strings.Repeat("a", 256) }, "ID", nil},
		"no names":      {func(l *lock) { l.names = nil }, "no names", nil},
		"negative":      {func(l *lock) { l.fence = -1 }, "redlock.WithFencing", nil},
		"two faults":    {func(l *lock) { l.fence, l.ctx = 0, ended }, "redlock.WithFencing", nil},
		"ended, no IDs": {func(l *lock) { l.id, l.ctx = "", ended }, "the lock has ended", errOver},
	} {
		for _, dialect := range dialects {
			t.Run(fmt.Sprint(name, dialect), func(t *testing.T) {
				db := &script{}
				tx := begin(t, db)
				l := held(t, "a")
				test.change(&l)
				err := newFences(t, dialect).Check(t.Context(), tx, l)
				require.ErrorContains(t, err, "sqlfence: ")
				require.ErrorContains(t, err, test.text)
				if test.err != nil {
					require.ErrorIs(t, err, test.err)
				}
				require.NotErrorIs(t, err, sqlfence.ErrStale)
				require.False(t, sqlfence.Retryable(err))
				require.Empty(t, db.statements)
				requireRolledBack(t, db, tx)
			})
		}
	}
}

func requireRolledBack(t *testing.T, db *script, tx *sql.Tx) {
	t.Helper()
	require.Equal(t, 1, db.rollbacks)
	require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
	require.Zero(t, db.commits)
}

// acceptAll answers as a database does whose rows accept the fence.
func acceptAll(s statement) reply {
	switch {
	case strings.Contains(s.query, "RETURNING"):
		var r reply
		for _, name := range s.args[4:] {
			r.rows = append(r.rows, []driver.Value{name})
		}
		return r
	case strings.HasPrefix(s.query, "SELECT"):
		return reply{rows: [][]driver.Value{{int64(0), ""}}}
	default:
		return reply{}
	}
}

func TestOneUpsertHasAllNamesSortedAndOnce(t *testing.T) {
	for dialect, mark := range map[sqlfence.Dialect]string{sqlfence.Postgres: "$", sqlfence.SQLite: "?"} {
		t.Run(dialect.String(), func(t *testing.T) {
			db := &script{answer: acceptAll}
			tx := begin(t, db)
			names := []string{"c", "a", "c", "B", "b"}
			require.NoError(t, newFences(t, dialect).Check(t.Context(), tx, held(t, names...)))
			require.Len(t, db.statements, 1)
			require.Equal(t, []any{"nodes", "app:", int64(7), "holder", "B", "a", "b", "c"}, db.statements[0].args)
			require.Contains(t, db.statements[0].query, strings.ReplaceAll("(@1, @2, @8, @3, @4, CURRENT_TIMESTAMP)", "@", mark))
			require.Equal(t, []string{"c", "a", "c", "B", "b"}, names, "the lock's own list has not changed")
			require.NoError(t, tx.Commit())
			require.Equal(t, 1, db.commits)
		})
	}
}

func TestMySQLLocksOneNameAfterTheOtherSortedAndOnce(t *testing.T) {
	db := &script{answer: acceptAll}
	tx := begin(t, db)
	require.NoError(t, newFences(t, sqlfence.MySQL).Check(t.Context(), tx, held(t, "c", "a", "c", "B")))
	var did []string
	for _, s := range db.statements {
		_, query, bounded := strings.Cut(s.query, "FOR */ ")
		if !bounded {
			query = s.query
		}
		word, _, _ := strings.Cut(query, " ")
		require.Equal(t, word == "INSERT", bounded, "only an INSERT waits: it locks the row")
		switch word {
		case "UPDATE":
			require.Equal(t, []any{int64(7), "holder"}, s.args[:2])
			s.args = s.args[2:]
		case "SELECT":
			require.True(t, strings.HasSuffix(s.query, "FOR UPDATE"), s.query)
		}
		require.Equal(t, []any{"nodes", "app:"}, s.args[:2])
		did = append(did, fmt.Sprint(word, " ", s.args[2]))
	}
	require.Equal(t, []string{
		"INSERT B", "SELECT B", "UPDATE B", "INSERT a", "SELECT a", "UPDATE a", "INSERT c", "SELECT c", "UPDATE c",
	}, did)
	require.NoError(t, tx.Commit())
}

// A name has any bytes. Those that a database cannot store as text are stored in another form, which
// no other name has.
func TestEveryNameHasAFormOfItsOwn(t *testing.T) {
	names := []string{"a", "A", "a ", "é", "\xff", `\xff`, `\x`, "\x00", "a\x00", `\y`, "", "ff", "\xff\x00"}
	want := []string{"a", "A", "a ", "é", `\xff`, `\x5c786666`, `\x5c78`, `\x00`, `\x6100`, `\y`, "", "ff", `\xff00`}
	slices.Sort(want)
	db := &script{answer: acceptAll}
	f, err := sqlfence.New(sqlfence.Config{Dialect: sqlfence.Postgres, Namespace: "nodes", KeyPrefix: "\xfe"})
	require.NoError(t, err)
	require.NoError(t, f.Check(t.Context(), begin(t, db), held(t, names...)))
	var stored []string
	for _, arg := range db.statements[0].args[4:] {
		stored = append(stored, arg.(string))
	}
	require.Equal(t, want, stored)
	require.Equal(t, `\xfe`, db.statements[0].args[1])
}

func TestAMissingRowIsStaleAndRollsBack(t *testing.T) {
	for _, dialect := range []sqlfence.Dialect{sqlfence.Postgres, sqlfence.SQLite} {
		t.Run(dialect.String(), func(t *testing.T) {
			db := &script{answer: func(statement) reply { return reply{rows: [][]driver.Value{{"a"}, {"c"}}} }}
			tx := begin(t, db)
			err := newFences(t, dialect).Check(t.Context(), tx, held(t, "a", "b", "c"))
			require.ErrorIs(t, err, sqlfence.ErrStale)
			require.ErrorContains(t, err, `"b"`)
			require.False(t, sqlfence.Retryable(err))
			requireRolledBack(t, db, tx)
		})
	}
}

// On MySQL the decision is that of redlock.AcceptFence, though the statements affect no rows.
func TestMySQLDecidesByTheRow(t *testing.T) {
	for name, test := range map[string]struct {
		seen   int64
		owner  string
		accept bool
	}{
		"a new row":                       {0, "", true},
		"a smaller fence":                 {6, "other", true},
		"its own fence":                   {7, "holder", true},
		"the same fence of another owner": {7, "other", false},
		"a larger fence":                  {8, "other", false},
		"a larger fence of its own":       {8, "holder", false},
	} {
		t.Run(name, func(t *testing.T) {
			db := &script{answer: func(s statement) reply {
				if strings.HasPrefix(s.query, "SELECT") && s.args[2] == "b" {
					return reply{rows: [][]driver.Value{{test.seen, []byte(test.owner)}}}
				}
				return acceptAll(s)
			}}
			tx := begin(t, db)
			err := newFences(t, sqlfence.MySQL).Check(t.Context(), tx, held(t, "a", "b", "c"))
			if test.accept {
				require.NoError(t, err)
				require.Len(t, db.statements, 9)
				require.NoError(t, tx.Commit())
				return
			}
			require.ErrorIs(t, err, sqlfence.ErrStale)
			require.ErrorContains(t, err, `"b"`)
			require.Len(t, db.statements, 5, "it changes nothing after the row that rejects the fence")
			requireRolledBack(t, db, tx)
		})
	}
}

func TestMySQLDoesNotAcceptARowThatIsMissing(t *testing.T) {
	db := &script{answer: func(statement) reply { return reply{} }}
	tx := begin(t, db)
	err := newFences(t, sqlfence.MySQL).Check(t.Context(), tx, held(t, "a"))
	require.ErrorIs(t, err, sql.ErrNoRows)
	requireRolledBack(t, db, tx)
}

type pgError struct{ state string }

func (e *pgError) Error() string    { return "ERROR: (SQLSTATE " + e.state + ")" }
func (e *pgError) SQLState() string { return e.state }

type sqliteError struct{ code int }

func (e *sqliteError) Error() string { return fmt.Sprintf("sqlite: %d", e.code) }
func (e *sqliteError) Code() int     { return e.code }

// An error of any statement is returned, and rolls back.
func TestErrorsOfEveryStatementRollBack(t *testing.T) {
	for _, dialect := range dialects {
		all := &script{answer: acceptAll}
		require.NoError(t, newFences(t, dialect).Check(t.Context(), begin(t, all), held(t, "a", "b")))
		for n := range all.statements {
			for name, fail := range map[string]func(*reply, error){
				"the statement": func(r *reply, err error) { r.err = err },
				"its rows":      func(r *reply, err error) { r.rows, r.rowsErr = nil, err },
			} {
				if name == "its rows" && !strings.HasPrefix(all.statements[n].query, "SELECT") && dialect == sqlfence.MySQL {
					continue
				}
				for _, retry := range []bool{true, false} {
					t.Run(fmt.Sprint(dialect, n, name, retry), func(t *testing.T) {
						failure := &pgError{map[bool]string{true: "40001", false: "42P01"}[retry]}
						db := &script{}
						db.answer = func(s statement) reply {
							r := acceptAll(s)
							if len(db.statements) == n+1 {
								fail(&r, failure)
							}
							return r
						}
						tx := begin(t, db)
						err := newFences(t, dialect).Check(t.Context(), tx, held(t, "a", "b"))
						require.ErrorIs(t, err, failure)
						require.ErrorContains(t, err, "sqlfence: ")
						assert.Equal(t, retry, errors.Is(err, sqlfence.ErrRetry))
						assert.Equal(t, retry, sqlfence.Retryable(err))
						require.NotErrorIs(t, err, sqlfence.ErrStale)
						require.Len(t, db.statements, n+1)
						requireRolledBack(t, db, tx)
					})
				}
			}
		}
	}
}

// The driver's error does not say that the lock has ended. It may even be one after which another
// transaction would be repeated.
func TestALockThatEndsDuringACheckIsTheReason(t *testing.T) {
	for _, dialect := range dialects {
		for name, failure := range map[string]error{
			"canceled":  fmt.Errorf("timeout: %w", context.Canceled),
			"retryable": &pgError{"40001"},
			"other":     &pgError{"42P01"},
		} {
			t.Run(fmt.Sprint(dialect, " ", name), func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				db := &script{answer: func(statement) reply {
					end(redlock.ErrLost)
					return reply{err: failure}
				}}
				tx := begin(t, db)
				l := held(t, "a")
				l.ctx = ctx
				// The caller's context has not ended: the driver noticed nothing of the lock.
				err := newFences(t, dialect).Check(t.Context(), tx, l)
				require.ErrorIs(t, err, redlock.ErrLost)
				require.ErrorIs(t, err, failure)
				require.ErrorContains(t, err, "sqlfence: the lock has ended: redlock: lock lost")
				require.NotErrorIs(t, err, sqlfence.ErrRetry)
				require.NotErrorIs(t, err, sqlfence.ErrStale)
				require.False(t, sqlfence.Retryable(err))
				require.False(t, sqlfence.Retryable(fmt.Errorf("write: %w", err)))
				requireRolledBack(t, db, tx)
			})
		}
	}
}

// A process may be paused during a Check for longer than the lock is valid. The database would accept its
// fence until a later holder has written, and again when that holder's row was deleted (README, Old rows).
func TestACheckDuringWhichTheLockEndsIsRejected(t *testing.T) {
	for _, dialect := range dialects {
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			db := &script{answer: func(s statement) reply {
				end(redlock.ErrLost)
				return acceptAll(s)
			}}
			tx := begin(t, db)
			l := held(t, "a")
			l.ctx = ctx
			err := newFences(t, dialect).Check(t.Context(), tx, l)
			require.EqualError(t, err, "sqlfence: the lock has ended: redlock: lock lost")
			require.ErrorIs(t, err, redlock.ErrLost)
			require.NotErrorIs(t, err, sqlfence.ErrStale)
			requireRolledBack(t, db, tx)
		})
	}
}

// A fence that a later holder's row rejects is stale, also if the lock ends meanwhile.
func TestAStaleFenceOfALockThatEndsDuringACheckIsStale(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	db := &script{answer: func(statement) reply {
		end(redlock.ErrLost)
		return reply{}
	}}
	tx := begin(t, db)
	l := held(t, "a")
	l.ctx = ctx
	err := newFences(t, sqlfence.Postgres).Check(t.Context(), tx, l)
	require.ErrorIs(t, err, sqlfence.ErrStale)
	requireRolledBack(t, db, tx)
}

// The caller's context ends while the lock is held.
func TestTheCauseOfAContextThatEndsDuringACheckIsJoined(t *testing.T) {
	errShutdown := errors.New("shutdown")
	for _, dialect := range dialects {
		for name, test := range map[string]struct {
			cause, failure error
			text           string
		}{
			"a cause":      {errShutdown, context.Canceled, "sqlfence: check the fence: shutdown: context canceled"},
			"no cause":     {nil, context.Canceled, "sqlfence: check the fence: context canceled"},
			"it has ended": {nil, sql.ErrTxDone, "sqlfence: check the fence: context canceled: " + sql.ErrTxDone.Error()},
			"retryable":    {errShutdown, &pgError{"40001"}, sqlfence.ErrRetry.Error() + ` (fence 7 of lock holder on "a"): shutdown: ERROR: (SQLSTATE 40001)`},
		} {
			t.Run(fmt.Sprint(dialect, " ", name), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				db := &script{answer: func(statement) reply {
					cancel(test.cause)
					return reply{err: test.failure}
				}}
				tx := begin(t, db)
				err := newFences(t, dialect).Check(ctx, tx, held(t, "a"))
				require.ErrorIs(t, err, context.Cause(ctx))
				require.ErrorIs(t, err, test.failure)
				require.EqualError(t, err, test.text)
				requireRolledBack(t, db, tx)
			})
		}
	}
}

// A transaction that has ended, for example with its context, is rolled back already.
func TestARollbackThatFails(t *testing.T) {
	errBroken := errors.New("broken")
	for _, dialect := range dialects {
		db := &script{rollbackErr: errBroken, answer: func(statement) reply { return reply{err: &pgError{"40P01"}} }}
		tx := begin(t, db)
		err := newFences(t, dialect).Check(t.Context(), tx, held(t, "a"))
		require.ErrorIs(t, err, sqlfence.ErrRetry)
		require.ErrorIs(t, err, errBroken)
		require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)

		err = newFences(t, dialect).Check(t.Context(), tx, held(t, "a"))
		require.ErrorIs(t, err, sql.ErrTxDone)
		require.NotContains(t, err.Error(), "rollback")
	}
}

func TestRetryableRecognizesTheDriversErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{sqlfence.ErrRetry, true},
		{sqlfence.ErrStale, false},
		{context.Canceled, false},
		{sql.ErrTxDone, false},
		{&pgError{"40001"}, true},
		{&pgError{"40P01"}, true},
		{&pgError{"55P03"}, true},
		{&pgError{"23505"}, false},
		{&pgError{"40003"}, false},
		{errors.New("Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"), true},
		{errors.New("Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction"), true},
		{errors.New("Error 1020 (HY000): Record has changed since last read in table 'redlock_fences'"), true},
		{errors.New("Error 3572 (HY000): Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set"), true},
		{errors.New("Error 1213: Deadlock found"), true},
		{errors.New("Error 12130 (HY000): something else"), false},
		{errors.New("Error 1062 (23000): Duplicate entry 'Error 1213' for key 'PRIMARY'"), false},
		{&sqliteError{5}, true},
		{&sqliteError{6}, true},
		{&sqliteError{517}, true},       // SQLITE_BUSY_SNAPSHOT
		{&sqliteError{262}, true},       // SQLITE_LOCKED_SHAREDCACHE
		{&sqliteError{1}, false},        // SQLITE_ERROR
		{&sqliteError{19}, false},       // SQLITE_CONSTRAINT
		{&sqliteError{5<<8 | 1}, false}, // an extended code of SQLITE_ERROR
		{errors.New("database is locked"), true},
		{errors.New("database table is locked: redlock_fences"), true},
		{errors.New("database schema is locked: main"), true},
		{errors.New("sqlite3: SQLITE_BUSY"), true},
		{errors.New("SQLITE_LOCKED: locked"), true},
		{errors.New("no such table: redlock_fences"), false},
	} {
		assert.Equal(t, test.want, sqlfence.Retryable(test.err), "%v", test.err)
		if test.err != nil {
			assert.Equal(t, test.want, sqlfence.Retryable(fmt.Errorf("write: %w", test.err)), "%v", test.err)
			assert.Equal(t, test.want, sqlfence.Retryable(errors.Join(errOther, fmt.Errorf("%w", test.err))), "%v", test.err)
		}
	}
}

var errOther = errors.New("another error")
