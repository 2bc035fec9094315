package sqlfence

import (
	"errors"
	"regexp"
	"strings"
)

// ErrRetry is the error of a Check that the database rejected because of a concurrent transaction: a
// serialization failure, a deadlock, or a wait for a lock that took too long. Nothing was decided on
// the fence. The caller repeats the whole transaction while the lock is held.
var ErrRetry = errors.New("sqlfence: the database rejected the transaction because of a concurrent one: repeat it")

// Retryable reports whether the transaction of this error can succeed if it is repeated from its
// beginning. Any statement of a transaction may fail with such an error, and so may its commit. It
// recognizes ErrRetry, and these errors of the drivers pgx, lib/pq, go-sql-driver/mysql,
// modernc.org/sqlite and mattn/go-sqlite3, also if they are wrapped:
//
//   - PostgreSQL: SQLSTATE 40001 (serialization failure), 40P01 (deadlock) and 55P03 (lock timeout,
//     NOWAIT);
//   - MySQL and MariaDB: 1213 (deadlock), 1205 (lock wait timeout), 1020 (the record has changed since
//     the snapshot) and 3572 (NOWAIT);
//   - SQLite: SQLITE_BUSY and SQLITE_LOCKED, with all of their extended codes.
//
// It knows errors by methods and texts, not by their types, so this package needs no driver. It returns
// false for the error of a Check during which the lock ended. A caller bounds how often it repeats a
// transaction.
func Retryable(err error) bool {
	if ended := (*endedError)(nil); errors.As(err, &ended) {
		return false
	}
	return errors.Is(err, ErrRetry) || anyInChain(err, func(err error) bool {
		switch e := err.(type) { //nolint:errorlint // anyInChain unwraps
		case interface{ SQLState() string }:
			return states[e.SQLState()]
		case interface{ Code() int }:
			const busy, locked = 5, 6 // the low byte of an extended code is its primary code
			return e.Code()&0xff == busy || e.Code()&0xff == locked
		case interface{ Unwrap() error }, interface{ Unwrap() []error }:
			return false // its text is that of errors below it
		default:
			return mysqlText.MatchString(err.Error()) || sqliteText(err.Error())
		}
	})
}

var states = map[string]bool{"40001": true, "40P01": true, "55P03": true}

// isLockTimeout recognizes the error of PostgreSQL after a wait that took too long.
func isLockTimeout(err error) bool {
	e, ok := err.(interface{ SQLState() string })
	return ok && e.SQLState() == "55P03"
}

// mysqlText matches the beginning of an error of go-sql-driver/mysql, which has no method for its number.
var mysqlText = regexp.MustCompile(`^Error (1213|1205|1020|3572)\b`)

// sqliteText recognizes the errors of SQLite drivers without a method for their code.
func sqliteText(text string) bool {
	for _, part := range []string{"SQLITE_BUSY", "SQLITE_LOCKED", "database is locked", "database table is locked", "database schema is locked"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// anyInChain reports whether match is true for err or for an error that it wraps.
func anyInChain(err error, match func(error) bool) bool {
	if err == nil {
		return false
	}
	if match(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // it unwraps
	case interface{ Unwrap() error }:
		return anyInChain(e.Unwrap(), match)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if anyInChain(err, match) {
				return true
			}
		}
	}
	return false
}
