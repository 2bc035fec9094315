package sqlfence_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/redlock"
)

// The bound is part of the statement that waits. It costs no statement of its own.
func TestTheWaitIsBoundedInTheStatementThatWaits(t *testing.T) {
	const postgres = "BETWEEN '1ms' AND '%[1]dms' THEN current_setting('lock_timeout') ELSE '%[1]dms' END, true)"
	const mariadb = "/*M!100200 SET STATEMENT innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, %d) FOR */ INSERT "
	for _, test := range []struct {
		dialect sqlfence.Dialect
		wait    time.Duration
		want    string
	}{
		{sqlfence.Postgres, 0, fmt.Sprintf(postgres, 5000)},
		{sqlfence.Postgres, 1500 * time.Millisecond, fmt.Sprintf(postgres, 1500)},
		{sqlfence.MySQL, 0, fmt.Sprintf(mariadb, 5)},
		{sqlfence.MySQL, time.Millisecond, fmt.Sprintf(mariadb, 1)},
		{sqlfence.MySQL, time.Second, fmt.Sprintf(mariadb, 1)},
		{sqlfence.MySQL, time.Second + 1, fmt.Sprintf(mariadb, 2)},
	} {
		t.Run(fmt.Sprint(test.dialect, " ", test.wait), func(t *testing.T) {
			f, err := sqlfence.New(sqlfence.Config{Dialect: test.dialect, Namespace: "nodes", Wait: test.wait})
			require.NoError(t, err)
			db := &script{answer: acceptAll}
			require.NoError(t, f.Check(t.Context(), begin(t, db), held(t, "a", "b")))
			require.Equal(t, 1, strings.Count(db.statements[0].query, test.want), db.statements[0].query)
		})
	}
}

// answerLockTimeout answers the first statement by a lock timeout of PostgreSQL, and those that follow by
// these replies.
func answerLockTimeout(db *script, chain, list reply) {
	db.answer = func(s statement) reply {
		switch {
		case strings.HasPrefix(s.query, "INSERT"):
			return reply{err: &pgError{"55P03"}}
		case s.query == "ROLLBACK AND CHAIN":
			return chain
		default:
			return list
		}
	}
}

func TestALockTimeoutNamesTheOpenTransactions(t *testing.T) {
	errNo := errors.New("no")
	sessions := [][]driver.Value{
		{int64(41), "idle in transaction", int64(12), "billing", "10.0.0.4", ""},
		{int64(42), "active", int64(0), "", "", "41"},
		{int64(43), "", int64(-1), "", "", ""}, // without the right to see more
	}
	const began = ` (fence 7 of lock holder on "a", "b"`
	for name, test := range map[string]struct {
		chain, list reply
		who         string
		statements  int
	}{
		"some": {
			reply{},
			reply{rows: sessions},
			`; open transactions: process 41 (idle in transaction, open for 12s, application "billing", client 10.0.0.4), ` +
				"process 42 (active, open for 0s, waits for 41), process 43)", 3,
		},
		"none":                    {reply{}, reply{}, ")", 3},
		"no answer":               {reply{}, reply{err: errNo}, ")", 3},
		"a server that is older":  {reply{err: errNo}, reply{}, ")", 2},
		"an answer that ends":     {reply{}, reply{rows: sessions[:1], rowsErr: errNo}, ")", 3},
		"an answer of other rows": {reply{}, reply{rows: [][]driver.Value{{"x", "", int64(0), "", "", ""}}}, ")", 3},
	} {
		t.Run(name, func(t *testing.T) {
			db := &script{}
			answerLockTimeout(db, test.chain, test.list)
			tx := begin(t, db)
			err := newFences(t, sqlfence.Postgres).Check(t.Context(), tx, held(t, "a", "b"))
			require.EqualError(t, err, sqlfence.ErrRetry.Error()+began+test.who+": ERROR: (SQLSTATE 55P03)")
			require.ErrorIs(t, err, sqlfence.ErrRetry)
			require.True(t, sqlfence.Retryable(err))
			require.Len(t, db.statements, test.statements)
			requireRolledBack(t, db, tx)
		})
	}
}

// The questions after a lock timeout take time.
func TestALockThatEndsWhileTransactionsAreAskedForIsTheReason(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	db := &script{}
	answerLockTimeout(db, reply{}, reply{})
	answer := db.answer
	db.answer = func(s statement) reply {
		if s.query == "ROLLBACK AND CHAIN" {
			end(redlock.ErrLost)
		}
		return answer(s)
	}
	l := held(t, "a")
	l.ctx = ctx
	err := newFences(t, sqlfence.Postgres).Check(t.Context(), begin(t, db), l)
	require.ErrorIs(t, err, redlock.ErrLost)
	require.NotErrorIs(t, err, sqlfence.ErrRetry)
	require.False(t, sqlfence.Retryable(err))
}

// Other databases, and other errors, are asked for nothing more.
func TestOnlyALockTimeoutOfPostgresAsksForTransactions(t *testing.T) {
	for _, dialect := range dialects {
		for _, failure := range []error{&pgError{"40P01"}, &pgError{"55P03"}, errors.New("Error 1205 (HY000): Lock wait timeout exceeded")} {
			if dialect == sqlfence.Postgres && failure.Error() == (&pgError{"55P03"}).Error() {
				continue
			}
			db := &script{answer: func(statement) reply { return reply{err: failure} }}
			err := newFences(t, dialect).Check(t.Context(), begin(t, db), held(t, "a"))
			require.EqualError(t, err, fmt.Sprintf("%v (fence 7 of lock holder on \"a\"): %v", sqlfence.ErrRetry, failure))
			require.Len(t, db.statements, 1)
		}
	}
}

func TestAnErrorNamesAtMostFiveNames(t *testing.T) {
	for names, want := range map[string]string{
		"a b c d e":     `on "a", "b", "c", "d", "e")`,
		"a b c d e f":   `on "a", "b", "c", "d", "e" and 1 more)`,
		"a b c d e f g": `on "a", "b", "c", "d", "e" and 2 more)`,
	} {
		db := &script{answer: func(statement) reply { return reply{err: &pgError{"40001"}} }}
		err := newFences(t, sqlfence.Postgres).Check(t.Context(), begin(t, db), held(t, strings.Fields(names)...))
		require.ErrorContains(t, err, want)
	}
}
