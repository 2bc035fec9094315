package sqlfence_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// suite is a database, and two processes that lock on the same nodes. Its tests run one after the
// other, because they look at what the whole database waits for. Each has its own namespace.
type suite struct {
	*database
	nodes         []*redistest.Node
	first, second *redlock.Locker
	short         *redlock.Locker // for TTLs of some seconds and less
	namespace     string
	fences        *sqlfence.Fences
}

// cases are the tests that every database passes.
var cases = []struct {
	name string
	test func(*testing.T, *suite)
}{
	{"fences that increase are accepted", testIncreasing},
	{"a lock writes in several transactions", testSameLock},
	{"an older fence is refused", testOlder},
	{"the same fence of another owner is refused", testOtherOwner},
	{"a rollback leaves the old row", testRollback},
	{"all names or none", testAllOrNone},
	{"locks that cannot be fenced are refused", testRefusals},
	{"transactions at once", testIsolation},
	{"a transaction that has read before", testSnapshot},
	{"transactions at once, without an order", testRaces},
	{"names in opposite order", testOppositeOrder},
	{"rows are locked in the order of the names", testOrder},
	{"a paused holder", testPaused},
	{"names of any bytes", testNames},
	{"namespaces and prefixes", testNamespaces},
	{"a new set of servers", testNewServers},
	{"old rows", testOldRows},
	{"a wait ends with its context", testWaitEnds},
	{"a wait ends with the lock", testLockEndsDuringWait},
	{"a wait takes too long", testTimeout},
	{"a wait is bounded", testWait},
	{"a deadlock with other rows", testDeadlock},
	{"no table", testNoTable},
}

func run(t *testing.T, open func(testing.TB) *database) {
	t.Helper()
	nodes := redistest.Start(t, 3)
	s := &suite{nodes: nodes, first: openLocker(t, nodes), second: openLocker(t, nodes), database: open(t)}
	s.short = openWith(t, nodes, redlock.WithFencing(), redlock.WithNodeTimeout(50*time.Millisecond)) // its Acquire repeats
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			s := *s
			s.namespace = one.name
			s.fences = s.database.fences(t, s.namespace)
			one.test(t, &s)
		})
	}
}

func openLocker(t testing.TB, nodes []*redistest.Node) *redlock.Locker {
	t.Helper()
	return openWith(t, nodes, redlock.WithFencing())
}

// nodeTimeout is more than a machine stalls for.
const nodeTimeout = 20 * time.Second

func openWith(t testing.TB, nodes []*redistest.Node, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	locker, err := redlock.Open(redistest.URLs(nodes), append([]redlock.Option{redlock.WithNodeTimeout(nodeTimeout)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locker.Close(context.Background())) })
	deadline := time.Now().Add(patience)
	for locker.Healthy(t.Context()) != nil {
		require.True(t, time.Now().Before(deadline), "no quorum of nodes is connected")
		time.Sleep(10 * time.Millisecond)
	}
	return locker
}

// acquire acquires a lock for longer than a test takes, and releases it at its end.
func acquire(t testing.TB, locker *redlock.Locker, names ...string) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := locker.AcquireAll(ctx, names, time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Release(context.Background()) }) // the keys may be gone: see overlap
	return lock
}

// overlap returns two locks on a name that are held at once. An administrator has deleted the keys of
// the older one.
func (s *suite) overlap(t testing.TB, name string) (older, newer *redlock.Lock) {
	t.Helper()
	older = acquire(t, s.first, name)
	s.deleteEverywhere(t, name)
	newer = acquire(t, s.second, name)
	require.NoError(t, older.Context().Err())
	require.Greater(t, newer.Fence(), older.Fence())
	return older, newer
}

// deleteEverywhere deletes the keys of names that are held. An acquire returns when a majority has
// granted, so it waits until each node has them: a node that executes the acquire later would have the
// keys again.
func (s *suite) deleteEverywhere(t testing.TB, names ...string) {
	t.Helper()
	s.heldEverywhere(t, names...)
	for _, node := range s.nodes {
		node.Do(t, "DEL", redis.Args{}.AddFlat(names)...)
	}
}

// heldEverywhere waits until each node has the keys of these names.
func (s *suite) heldEverywhere(t testing.TB, names ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, node := range s.nodes {
		for node.Do(t, "EXISTS", redis.Args{}.AddFlat(names)...) != int64(len(names)) {
			require.True(t, time.Now().Before(deadline), "%s does not have all keys of %q", node.Addr(), names)
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func begin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // has no effect after a commit
	return tx
}

// write writes to the journal in one transaction.
func (s *suite) write(ctx context.Context, lock sqlfence.Lock, level sql.IsolationLevel) error {
	return s.writeTo(ctx, s.DB, lock, level)
}

func (s *suite) writeTo(ctx context.Context, db *sql.DB, lock sqlfence.Lock, level sql.IsolationLevel) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	if err := s.fences.Check(ctx, tx, lock); err != nil {
		if late := tx.Commit(); !errors.Is(late, sql.ErrTxDone) {
			return fmt.Errorf("a commit after %w: %w", err, late)
		}
		return err
	}
	return s.finish(ctx, tx, lock)
}

// finish writes to the journal in a transaction that has checked the fence, and commits.
func (s *suite) finish(ctx context.Context, tx *sql.Tx, lock sqlfence.Lock) error {
	_, err := tx.ExecContext(ctx, s.statement("INSERT INTO journal (name, fence) VALUES (?, ?)"), lock.Names()[0], lock.Fence())
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// writeOften repeats the transaction for as long as the database rejects it because of others.
func (s *suite) writeOften(ctx context.Context, lock sqlfence.Lock, level sql.IsolationLevel) error {
	for deadline := time.Now().Add(patience); ; {
		err := s.write(ctx, lock, level)
		if !sqlfence.Retryable(err) || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *suite) requireRow(t testing.TB, name string, lock sqlfence.Lock) {
	t.Helper()
	fence, owner := s.row(t, s.namespace, name)
	require.Equal(t, lock.Fence(), fence)
	require.Equal(t, lock.ID(), owner)
}

func testIncreasing(t *testing.T, s *suite) {
	t.Helper()
	const name = "increasing"
	var fences []int64
	for range 3 {
		for _, locker := range []*redlock.Locker{s.first, s.second} {
			lock := acquire(t, locker, name)
			require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
			s.requireRow(t, name, lock)
			fences = append(fences, lock.Fence())
			require.NoError(t, lock.Release(t.Context()))
		}
	}
	require.Equal(t, fences, s.journal(t, name))
	require.IsIncreasing(t, fences)
}

func testSameLock(t *testing.T, s *suite) {
	t.Helper()
	const name = "same"
	lock := acquire(t, s.first, name)
	for range 3 {
		tx := begin(t, s.DB, sql.LevelDefault)
		require.NoError(t, s.fences.Check(t.Context(), tx, lock))
		require.NoError(t, s.fences.Check(t.Context(), tx, lock), "a second time in the same transaction")
		require.NoError(t, s.finish(t.Context(), tx, lock))
		s.requireRow(t, name, lock)
	}
	require.Len(t, s.journal(t, name), 3)
}

func testOlder(t *testing.T, s *suite) {
	t.Helper()
	const name = "older"
	older, newer := s.overlap(t, name)
	require.NoError(t, s.write(t.Context(), older, sql.LevelDefault))
	require.NoError(t, s.write(t.Context(), newer, sql.LevelDefault))
	err := s.write(t.Context(), older, sql.LevelDefault)
	require.ErrorIs(t, err, sqlfence.ErrStale)
	require.ErrorContains(t, err, `"older"`)
	require.False(t, sqlfence.Retryable(err))
	s.requireRow(t, name, newer)
	require.NoError(t, s.write(t.Context(), newer, sql.LevelDefault))
	require.Equal(t, []int64{older.Fence(), newer.Fence(), newer.Fence()}, s.journal(t, name))
}

// renamed is a lock with another ID.
type renamed struct{ *redlock.Lock }

func (renamed) ID() string { return "another" }

func testOtherOwner(t *testing.T, s *suite) {
	t.Helper()
	const name = "owner"
	lock := acquire(t, s.first, name)
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
	require.ErrorIs(t, s.write(t.Context(), renamed{lock}, sql.LevelDefault), sqlfence.ErrStale)
	s.requireRow(t, name, lock)
	require.Len(t, s.journal(t, name), 1)
}

func testRollback(t *testing.T, s *suite) {
	t.Helper()
	const name = "rollback"
	older, newer := s.overlap(t, name)
	for _, before := range []*redlock.Lock{nil, older} {
		tx := begin(t, s.DB, sql.LevelDefault)
		require.NoError(t, s.fences.Check(t.Context(), tx, newer))
		require.NoError(t, tx.Rollback())
		if before == nil {
			fence, _ := s.row(t, s.namespace, name)
			require.Zero(t, fence)
		} else {
			s.requireRow(t, name, before)
		}
		require.NoError(t, s.write(t.Context(), older, sql.LevelDefault), "the newer one has written nothing")
	}
}

func testAllOrNone(t *testing.T, s *suite) {
	t.Helper()
	names := []string{"all-a", "all-b", "all-c"}
	older := acquire(t, s.first, names...)
	s.deleteEverywhere(t, "all-b")
	newer := acquire(t, s.second, "all-b")
	require.NoError(t, s.write(t.Context(), newer, sql.LevelDefault))
	err := s.write(t.Context(), older, sql.LevelDefault)
	require.ErrorIs(t, err, sqlfence.ErrStale)
	require.ErrorContains(t, err, `"all-b"`)
	for _, name := range []string{"all-a", "all-c"} {
		fence, _ := s.row(t, s.namespace, name)
		require.Zero(t, fence, name)
	}
	s.deleteEverywhere(t, "all-a", "all-c")

	newest := acquire(t, s.second, "all-a", "all-c")
	require.NoError(t, s.write(t.Context(), newest, sql.LevelDefault))
	s.requireRow(t, "all-a", newest)
	s.requireRow(t, "all-b", newer)
	s.requireRow(t, "all-c", newest)
}

func testRefusals(t *testing.T, s *suite) {
	t.Helper()
	unfenced := acquire(t, openWith(t, s.nodes), "refused")
	require.ErrorContains(t, s.write(t.Context(), unfenced, sql.LevelDefault), "redlock.WithFencing")
	require.NoError(t, unfenced.Release(t.Context()))

	lock := acquire(t, s.first, "refused")
	require.NoError(t, lock.Release(t.Context()))
	require.ErrorIs(t, s.write(t.Context(), lock, sql.LevelDefault), redlock.ErrReleased)

	short, err := s.short.Acquire(t.Context(), "refused", 100*time.Millisecond)
	require.NoError(t, err)
	<-short.Context().Done()
	require.ErrorIs(t, s.write(t.Context(), short, sql.LevelDefault), redlock.ErrLost)
	require.Empty(t, s.journal(t, "refused"))
}

// levels are the isolation levels of the tests. SQLite has only one.
var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// behind checks the fence of behind while a transaction that has checked that of ahead is open. That
// one then writes and commits.
func (s *suite) behind(t *testing.T, ahead, behind sqlfence.Lock, level sql.IsolationLevel) (*sql.Tx, error) {
	t.Helper()
	first, second := begin(t, s.DB, level), begin(t, s.DB, level)
	require.NoError(t, s.fences.Check(t.Context(), first, ahead))
	result := make(chan error, 1)
	go func() { result <- s.fences.Check(t.Context(), second, behind) }()
	err, done := s.awaitBlocked(t, result)
	require.NoError(t, s.finish(t.Context(), first, ahead))
	if !done {
		err = <-result
	}
	return second, err
}

// One transaction has checked its fence when the other one begins to. So the other one waits, or the
// database rejects it, and it is repeated.
func testIsolation(t *testing.T, s *suite) {
	t.Helper()
	for _, level := range levels {
		rejects := s.rejects(level)
		t.Run("the newer one behind the older one, "+level.String(), func(t *testing.T) {
			name := "forwards " + level.String()
			older, newer := s.overlap(t, name)
			tx, err := s.behind(t, older, newer, level)
			if rejects {
				require.ErrorIs(t, err, sqlfence.ErrRetry)
				require.NotErrorIs(t, err, sqlfence.ErrStale)
				require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
				require.NoError(t, s.writeOften(t.Context(), newer, level))
			} else {
				require.NoError(t, err)
				var seen int64
				require.NoError(t, tx.QueryRowContext(t.Context(), s.statement("SELECT fence FROM journal WHERE name = ?"), name).Scan(&seen))
				require.Equal(t, older.Fence(), seen, "it reads what was committed while it waited")
				require.NoError(t, s.finish(t.Context(), tx, newer))
			}
			require.Equal(t, []int64{older.Fence(), newer.Fence()}, s.journal(t, name))
			s.requireRow(t, name, newer)
		})
		t.Run("the older one behind the newer one, "+level.String(), func(t *testing.T) {
			name := "backwards " + level.String()
			older, newer := s.overlap(t, name)
			tx, err := s.behind(t, newer, older, level)
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
			if rejects {
				require.ErrorIs(t, err, sqlfence.ErrRetry)
				err = s.writeOften(t.Context(), older, level)
			}
			require.ErrorIs(t, err, sqlfence.ErrStale)
			require.Equal(t, []int64{newer.Fence()}, s.journal(t, name))
			s.requireRow(t, name, newer)
		})
	}
}

// What the transaction reads is older than what it compares with.
func testSnapshot(t *testing.T, s *suite) {
	t.Helper()
	for _, level := range levels {
		name := "snapshot " + level.String()
		older, newer := s.overlap(t, name)
		require.NoError(t, s.write(t.Context(), older, level))
		tx := begin(t, s.DB, level)
		var n int
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM redlock_fences").Scan(&n))
		if s.dialect == sqlfence.MySQL && level == sql.LevelSerializable {
			require.NoError(t, tx.Rollback()) // its reads lock: no other transaction can write
			continue
		}
		require.NoError(t, s.write(t.Context(), newer, level))
		err := s.fences.Check(t.Context(), tx, older)
		require.True(t, errors.Is(err, sqlfence.ErrStale) || errors.Is(err, sqlfence.ErrRetry), "%v", err)
		require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
		s.requireRow(t, name, newer)
	}
}

// Two holders write as often as they need to, in any order.
func testRaces(t *testing.T, s *suite) {
	t.Helper()
	for _, level := range levels {
		for round := range 10 {
			name := fmt.Sprint("race ", round, " ", level)
			older, newer := s.overlap(t, name)
			start := make(chan struct{})
			var errs [2]error
			var wg sync.WaitGroup
			for i, lock := range []*redlock.Lock{older, newer} {
				wg.Go(func() {
					<-start
					errs[i] = s.writeOften(t.Context(), lock, level)
				})
			}
			close(start)
			wg.Wait()
			require.NoError(t, errs[1])
			want := []int64{older.Fence(), newer.Fence()}
			if errs[0] != nil {
				require.ErrorIs(t, errs[0], sqlfence.ErrStale)
				want = want[1:]
			}
			require.Equal(t, want, s.journal(t, name))
			s.requireRow(t, name, newer)
		}
	}
}

// reversed is a lock whose names are not sorted, and given twice.
type reversed struct{ *redlock.Lock }

func (l reversed) Names() []string {
	names := l.Lock.Names()
	slices.Reverse(names)
	return append(names, names...)
}

func testOppositeOrder(t *testing.T, s *suite) {
	t.Helper()
	lock := acquire(t, s.first, "opposite-a", "opposite-b")
	var errs [2]error
	var wg sync.WaitGroup
	for i, lock := range []sqlfence.Lock{lock, reversed{lock}} {
		wg.Go(func() {
			for range 100 {
				errs[i] = errors.Join(errs[i], s.writeTo(t.Context(), s.patient, lock, sql.LevelDefault))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	s.requireRow(t, "opposite-a", lock)
	s.requireRow(t, "opposite-b", lock)
}

// A transaction holds the row of one name. A Check that waits for it has locked the rows of the names
// before, and no others.
func testOrder(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // it locks no rows
	}
	var names []string
	for c := 'a'; c <= 'p'; c++ {
		names = append(names, "order-"+string(c))
	}
	lock := reversed{acquire(t, s.first, names...)}
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
	lockRow := func(tx *sql.Tx, name, how string) error {
		var fence int64
		return tx.QueryRowContext(t.Context(), s.statement("SELECT fence FROM redlock_fences"+
			" WHERE namespace = ? AND key_prefix = '' AND name = ? FOR UPDATE"+how), s.namespace, name).Scan(&fence)
	}
	for _, at := range []int{0, 7, len(names) - 1} {
		holder, tx := begin(t, s.DB, sql.LevelDefault), begin(t, s.DB, sql.LevelDefault)
		require.NoError(t, lockRow(holder, names[at], ""))
		result := make(chan error, 1)
		go func() { result <- s.fences.Check(t.Context(), tx, lock) }()
		err, done := s.awaitBlocked(t, result)
		require.False(t, done, "%v", err)
		for i, name := range names {
			probe := begin(t, s.DB, sql.LevelDefault)
			err := lockRow(probe, name, " NOWAIT")
			require.NoError(t, probe.Rollback())
			if i <= at {
				require.True(t, sqlfence.Retryable(err), "%s: %v", name, err)
			} else {
				require.NoError(t, err, name)
			}
		}
		require.NoError(t, holder.Rollback())
		require.NoError(t, <-result)
		require.NoError(t, tx.Commit())
	}
}

// pausedTx is a transaction whose process is paused before its first statement.
type pausedTx struct {
	*sql.Tx
	reached, resume chan struct{}
	once            *sync.Once
}

func (tx pausedTx) pause() {
	tx.once.Do(func() {
		close(tx.reached)
		<-tx.resume
	})
}

func (tx pausedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tx.pause()
	return tx.Tx.ExecContext(ctx, query, args...)
}

func (tx pausedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	tx.pause()
	return tx.Tx.QueryContext(ctx, query, args...)
}

// The holder's lock is valid when Check looks at it. It expires while the holder is paused, and
// another process acquires it and writes.
func testPaused(t *testing.T, s *suite) {
	t.Helper()
	for try := 1; !s.pauseInCheck(t, fmt.Sprint("paused ", try)); try++ {
		require.Less(t, try, 10, "each lock has expired before the holder was paused")
	}
}

// pauseInCheck returns false if the lock has expired before the holder was paused.
func (s *suite) pauseInCheck(t *testing.T, name string) bool {
	t.Helper()
	paused, err := s.short.Acquire(t.Context(), name, 2*time.Second)
	require.NoError(t, err)
	if err = s.write(t.Context(), paused, sql.LevelDefault); errors.Is(err, redlock.ErrLost) {
		return false
	}
	require.NoError(t, err)

	tx := pausedTx{begin(t, s.DB, sql.LevelDefault), make(chan struct{}), make(chan struct{}), &sync.Once{}}
	result := make(chan error, 1)
	go func() { result <- s.fences.Check(t.Context(), tx, paused) }()
	select {
	case <-tx.reached:
	case err := <-result:
		require.ErrorIs(t, err, redlock.ErrLost, "Check has ended before its first statement")
		return false
	}
	other := acquire(t, s.second, name)
	require.ErrorIs(t, context.Cause(paused.Context()), redlock.ErrLost)
	require.NoError(t, s.write(t.Context(), other, sql.LevelDefault))
	close(tx.resume)
	require.ErrorIs(t, <-result, sqlfence.ErrStale)

	_, err = tx.Tx.ExecContext(t.Context(), s.statement("INSERT INTO journal (name, fence) VALUES (?, 0)"), name)
	require.ErrorIs(t, err, sql.ErrTxDone, "a holder that ignores the error writes nothing")
	require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
	require.Equal(t, []int64{paused.Fence(), other.Fence()}, s.journal(t, name))
	s.requireRow(t, name, other)
	return true
}

// Names that a database may take for the same have rows of their own.
func testNames(t *testing.T, s *suite) {
	t.Helper()
	long := make([]byte, 511)
	_, _ = rand.Read(long) // it never fails
	names := []string{
		"case", "CASE", "Case", "case ", " case", "case\t", "cáse", "ca\u0301se", "ｃａｓｅ", "cas\u212f", "caße", "casse", "😀", "😁",
		"\x00", "case\x00", "\xff", "\xfe", `\xff`, `\x`, `case\`, "case'", "%", "?", "$1", "@1",
		string(long) + "a", string(long) + "A", strings.Repeat("😀", 128), strings.Repeat("a", 512),
	}
	var err error
	s.namespace = "names" + strings.Repeat("é", 125)
	s.fences, err = sqlfence.New(sqlfence.Config{Dialect: s.dialect, Namespace: s.namespace, KeyPrefix: string(long)})
	require.NoError(t, err)
	var locks []*redlock.Lock
	for _, name := range names {
		locks = append(locks, acquire(t, s.first, name))
	}
	locks = append(locks, acquire(t, s.second, "one more", "ONE MORE"))
	for _, lock := range slices.Concat(locks, locks) {
		tx := begin(t, s.DB, sql.LevelDefault)
		require.NoError(t, s.fences.Check(t.Context(), tx, lock), "%q", lock.Names())
		require.NoError(t, tx.Commit())
	}
	var rows int
	require.NoError(t, s.QueryRowContext(t.Context(), s.statement("SELECT count(*) FROM redlock_fences WHERE namespace = ?"), s.namespace).Scan(&rows))
	require.Equal(t, len(names)+2, rows)
}

// The fences of one set of nodes say nothing of those of another.
func testNamespaces(t *testing.T, s *suite) {
	t.Helper()
	const name = "shared"
	older, newer := s.overlap(t, name)
	require.NoError(t, s.write(t.Context(), newer, sql.LevelDefault))
	for _, config := range []sqlfence.Config{
		{Namespace: s.namespace + " "},
		{Namespace: strings.ToUpper(s.namespace)},
		{Namespace: s.namespace, KeyPrefix: "a"},
		{Namespace: s.namespace, KeyPrefix: "A"},
	} {
		config.Dialect = s.dialect
		var err error
		s.fences, err = sqlfence.New(config)
		require.NoError(t, err)
		require.NoError(t, s.write(t.Context(), older, sql.LevelDefault))
		require.NoError(t, s.write(t.Context(), newer, sql.LevelDefault))
		require.ErrorIs(t, s.write(t.Context(), older, sql.LevelDefault), sqlfence.ErrStale)
	}
}

func testWaitEnds(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // transactions do not wait
	}
	lock := acquire(t, s.first, "wait")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	errShutdown := errors.New("shutdown")
	err := s.endWait(ctx, t, lock, func() { cancel(errShutdown) })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errShutdown)
	require.NoError(t, lock.Context().Err())
}

// The holder waits in Check with its lock's context, and then loses the lock.
func testLockEndsDuringWait(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // transactions do not wait
	}
	const name = "lost wait"
	lock := acquire(t, s.first, name)
	err := s.endWait(lock.Context(), t, lock, func() {
		s.deleteEverywhere(t, name)
		require.ErrorIs(t, lock.Check(t.Context()), redlock.ErrLost)
	})
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, sqlfence.ErrStale)
}

// endWait calls end while a Check with ctx waits for another transaction of the lock, and returns the
// error of that Check.
func (s *suite) endWait(ctx context.Context, t *testing.T, lock *redlock.Lock, end func()) error {
	t.Helper()
	first, second := begin(t, s.DB, sql.LevelDefault), begin(t, s.DB, sql.LevelDefault)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	result := make(chan error, 1)
	go func() { result <- s.fences.Check(ctx, second, lock) }()
	_, done := s.awaitBlocked(t, result)
	require.False(t, done)
	end()
	err := <-result
	require.False(t, sqlfence.Retryable(err), "%v", err)
	require.ErrorIs(t, second.Commit(), sql.ErrTxDone)
	require.NoError(t, s.finish(t.Context(), first, lock))
	return err
}

// A database that stops the wait says nothing of the fence.
func testTimeout(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // transactions do not wait
	}
	lock := acquire(t, s.first, "timeout")
	first := begin(t, s.DB, sql.LevelDefault)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	conn, err := s.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	set, reset := "SET lock_timeout = '50ms'", "RESET lock_timeout"
	if s.dialect == sqlfence.MySQL {
		set, reset = "SET innodb_lock_wait_timeout = 1", "SET innodb_lock_wait_timeout = DEFAULT"
	}
	_, err = conn.ExecContext(t.Context(), set)
	require.NoError(t, err)
	second, err := conn.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.ErrorIs(t, s.fences.Check(t.Context(), second, lock), sqlfence.ErrRetry)
	require.ErrorIs(t, second.Commit(), sql.ErrTxDone)
	_, err = conn.ExecContext(t.Context(), reset)
	require.NoError(t, err)
	require.NoError(t, s.finish(t.Context(), first, lock))
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
}

// Check waits for as long as its Fences say, and says what it waited for. It leaves no bound on the connection.
func testWait(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // transactions do not wait
	}
	const name = "bounded"
	lock := acquire(t, s.first, name)
	first := begin(t, s.DB, sql.LevelDefault)
	require.NoError(t, s.fences.Check(t.Context(), first, lock))
	conn, err := s.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	bound := func() (text string) {
		require.NoError(t, conn.QueryRowContext(t.Context(), s.bound).Scan(&text))
		return text
	}
	before := bound()

	s.fences = s.fencesThatWait(t, s.namespace, time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), patience/2) // MariaDB's own bound is almost a minute
	defer cancel()
	second, err := conn.BeginTx(ctx, nil)
	require.NoError(t, err)
	err = s.fences.Check(ctx, second, lock)
	require.ErrorIs(t, err, sqlfence.ErrRetry)
	require.ErrorContains(t, err, fmt.Sprintf("(fence %d of lock %s on %q", lock.Fence(), lock.ID(), name))
	if s.dialect == sqlfence.Postgres {
		var pid int
		require.NoError(t, first.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		require.ErrorContains(t, err, fmt.Sprintf("; open transactions: process %d (idle in transaction, open for ", pid))
	}
	require.ErrorIs(t, second.Commit(), sql.ErrTxDone)
	require.Equal(t, before, bound())

	require.NoError(t, s.finish(t.Context(), first, lock))
	third, err := conn.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.fences.Check(t.Context(), third, lock))
	require.NoError(t, s.finish(t.Context(), third, lock))
	require.Equal(t, before, bound())
}

// Check cannot prevent a deadlock with rows that were locked before it.
func testDeadlock(t *testing.T, s *suite) {
	t.Helper()
	if s.blocked == "" {
		return // transactions do not wait
	}
	lock := acquire(t, s.first, "deadlock")
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
	lockJournal := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE journal SET fence = fence WHERE name = 'deadlock'")
		return err
	}
	first, second := begin(t, s.DB, sql.LevelReadCommitted), begin(t, s.DB, sql.LevelReadCommitted)
	require.NoError(t, lockJournal(first))
	require.NoError(t, s.fences.Check(t.Context(), second, lock))
	result := make(chan error, 1)
	go func() { result <- s.fences.Check(t.Context(), first, lock) }()
	_, done := s.awaitBlocked(t, result)
	require.False(t, done)
	if err := lockJournal(second); err != nil {
		require.True(t, sqlfence.Retryable(err), "%v", err)
		require.NoError(t, second.Rollback())
		require.NoError(t, <-result)
		require.NoError(t, first.Commit())
		return
	}
	require.ErrorIs(t, <-result, sqlfence.ErrRetry)
	require.ErrorIs(t, first.Commit(), sql.ErrTxDone)
	require.NoError(t, second.Commit())
}

func testNoTable(t *testing.T, s *suite) {
	t.Helper()
	lock := acquire(t, s.first, "no table")
	var err error
	s.fences, err = sqlfence.New(sqlfence.Config{Dialect: s.dialect, Namespace: "any", Table: "no_such_table"})
	require.NoError(t, err)
	err = s.write(t.Context(), lock, sql.LevelDefault)
	require.ErrorContains(t, err, "no_such_table")
	require.NotErrorIs(t, err, sqlfence.ErrStale)
	require.False(t, sqlfence.Retryable(err))
}
