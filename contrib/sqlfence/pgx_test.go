package sqlfence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/redlock"
)

// pgxTx is a transaction with the methods of pgx.Tx. It accepts the names that accepted has.
type pgxTx struct {
	accepted  []string
	err       error // of each INSERT
	queries   []string
	rollbacks int
}

func (tx *pgxTx) Query(_ context.Context, query string, _ ...any) (pgxRows, error) {
	tx.queries = append(tx.queries, query)
	switch {
	case !strings.HasPrefix(query, "INSERT"):
		return &pgxNames{}, nil
	case tx.err != nil:
		return nil, tx.err
	}
	return &pgxNames{left: tx.accepted}, nil
}

// Rollback fails as that of pgx after the end of a connection.
func (tx *pgxTx) Rollback(context.Context) error {
	tx.rollbacks++
	return errors.New("conn closed")
}

// pgxRows is an interface, as pgx.Rows is.
type pgxRows interface {
	sqlfence.PgxRows
	Values() ([]any, error)
}

type pgxNames struct {
	left []string
	name string
}

func (r *pgxNames) Next() bool {
	if len(r.left) == 0 {
		return false
	}
	r.name, r.left = r.left[0], r.left[1:]
	return true
}

func (r *pgxNames) Scan(dest ...any) error {
	*dest[0].(*string) = r.name
	return nil
}

func (r *pgxNames) Err() error             { return nil }
func (r *pgxNames) Close()                 {}
func (r *pgxNames) Values() ([]any, error) { return nil, nil }

func TestAPgxTransactionIsCheckedByTheSameStatement(t *testing.T) {
	f := newFences(t, sqlfence.Postgres)
	db := &script{answer: acceptAll}
	require.NoError(t, f.Check(t.Context(), begin(t, db), held(t, "a", "b")))
	tx := &pgxTx{accepted: []string{"a", "b"}}
	require.NoError(t, sqlfence.CheckPgx(t.Context(), f, tx, held(t, "a", "b")))
	require.Equal(t, []string{db.statements[0].query}, tx.queries)
	require.Zero(t, tx.rollbacks)
}

func TestAPgxTransactionIsRolledBack(t *testing.T) {
	f := newFences(t, sqlfence.Postgres)
	ended, end := context.WithCancelCause(t.Context())
	end(redlock.ErrLost)
	lost := held(t, "a")
	lost.ctx = ended
	for name, test := range map[string]struct {
		fences  *sqlfence.Fences
		tx      *pgxTx
		lock    lock
		err     error
		text    string
		queries int
	}{
		"a later holder":     {f, &pgxTx{accepted: []string{"a"}}, held(t, "a", "b"), sqlfence.ErrStale, `the name "b"`, 1},
		"a deadlock":         {f, &pgxTx{err: &pgError{"40P01"}}, held(t, "a"), sqlfence.ErrRetry, "40P01", 1},
		"a lock timeout":     {f, &pgxTx{err: &pgError{"55P03"}}, held(t, "a"), sqlfence.ErrRetry, "55P03", 3},
		"a lock that ended":  {f, &pgxTx{}, lost, redlock.ErrLost, "the lock has ended", 0},
		"an error":           {f, &pgxTx{err: errOther}, held(t, "a"), errOther, "sqlfence: check the fence", 1},
		"the wrong database": {newFences(t, sqlfence.MySQL), &pgxTx{}, held(t, "a"), nil, "the Dialect Postgres, not MySQL", 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := sqlfence.CheckPgx(t.Context(), test.fences, test.tx, test.lock)
			require.ErrorContains(t, err, test.text)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
			}
			require.Len(t, test.tx.queries, test.queries)
			require.Equal(t, 1, test.tx.rollbacks)
		})
	}
}
