package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// upsert stores the fence for all names with one statement, and returns those that rejected it. The
// database locks the rows in the order of names. A row that is locked by another transaction is
// compared when that transaction has ended.
func (f *Fences) upsert(ctx context.Context, tx session, names []string, owner string, fence int64) (stale []string, err error) {
	mark, now := "$", f.nowOnPostgres()
	if f.dialect == SQLite {
		mark, now = "?", "CURRENT_TIMESTAMP"
	}
	args := []any{f.namespace, f.prefix, fence, owner}
	values := make([]string, len(names))
	for i, name := range names {
		args = append(args, name)
		values[i] = "(@1, @2, @" + strconv.Itoa(len(args)) + ", @3, @4, " + now + ")"
		now = "CURRENT_TIMESTAMP"
	}
	accepted := make(map[string]bool, len(names))
	err = tx.query(ctx, func(scan scanner) error {
		var name string
		err := scan(&name)
		accepted[name] = true
		return err
	}, strings.ReplaceAll(
		"INSERT INTO "+f.table+" AS t (namespace, key_prefix, name, fence, owner, checked_at) VALUES "+strings.Join(values, ", ")+
			" ON CONFLICT (namespace, key_prefix, name) DO UPDATE"+
			" SET fence = excluded.fence, owner = excluded.owner, checked_at = excluded.checked_at"+
			" WHERE t.fence < excluded.fence OR (t.fence = excluded.fence AND t.owner = excluded.owner)"+
			" RETURNING name", "@", mark), args...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return accepted[name] }), nil
}

// nowOnPostgres is the time of the transaction, as a value of the first row. It also sets lock_timeout to the bound
// of the wait until the transaction ends, unless a smaller one is set: the values of a row are computed before the
// row is locked. A statement of its own would cost a round trip.
func (f *Fences) nowOnPostgres() string {
	return strings.ReplaceAll("CASE WHEN set_config('lock_timeout',"+
		" CASE WHEN current_setting('lock_timeout')::interval BETWEEN '1ms' AND '%wait%' THEN current_setting('lock_timeout') ELSE '%wait%' END,"+
		" true) <> '' THEN CURRENT_TIMESTAMP END", "%wait%", strconv.FormatInt(f.wait.Milliseconds(), 10)+"ms")
}

// lockAndUpdate stores the fence for one name after the other, up to the first that rejects it. It
// reads each row when the row is locked. How many rows a statement affects says nothing: an equal
// fence of the same owner changes none.
func (f *Fences) lockAndUpdate(ctx context.Context, tx session, names []string, owner string, fence int64) (stale []string, err error) {
	const key = " WHERE namespace = ? AND key_prefix = ? AND name = ?"
	for _, name := range names {
		err := tx.exec(ctx, f.waitOnMariaDB()+"INSERT INTO "+f.table+" (namespace, key_prefix, name, fence, owner, checked_at)"+
			" VALUES (?, ?, ?, 0, '', UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE name = name", f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
		seen, seenOwner, err := readRow(ctx, tx, "SELECT fence, owner FROM "+f.table+key+" FOR UPDATE", f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
		if !redlock.AcceptFence(seen, seenOwner, fence, owner) {
			return []string{name}, nil
		}
		err = tx.exec(ctx, "UPDATE "+f.table+" SET fence = ?, owner = ?, checked_at = UTC_TIMESTAMP(6)"+key,
			fence, owner, f.namespace, f.prefix, name)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// waitOnMariaDB bounds the wait for a row in the statement that follows, in whole seconds, unless a smaller
// bound is set. MySQL ignores it as a comment: there a bound could only be set for the whole connection.
func (f *Fences) waitOnMariaDB() string {
	seconds := (f.wait + time.Second - 1) / time.Second
	return fmt.Sprintf("/*M!100200 SET STATEMENT innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, %d) FOR */ ", seconds)
}

func readRow(ctx context.Context, tx session, query string, key ...any) (fence int64, owner string, err error) {
	found := false
	err = tx.query(ctx, func(scan scanner) error {
		found = true
		return scan(&fence, &owner)
	}, query, key...)
	if err == nil && !found {
		// The row was inserted before. Its name may have been truncated: not every mode of MySQL
		// rejects a name that is too long.
		err = fmt.Errorf("the row is not in the table: %w", sql.ErrNoRows)
	}
	return fence, owner, err
}
