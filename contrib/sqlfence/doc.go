// Package sqlfence lets a SQL database reject the writes of a holder once a later holder of the lock has
// written. It checks the fencing token of a lock of package redlock in the transaction of the write. It
// is a module of its own, and imports no database driver.
//
//	fences, err := sqlfence.New(sqlfence.Config{Dialect: sqlfence.Postgres, Namespace: "locks-1"})
//	if err != nil { … }
//	tx, err := db.BeginTx(ctx, nil) // ctx is that of the work: it ends with the lock
//	if err != nil { … }
//	defer tx.Rollback()
//	if err := fences.Check(ctx, tx, lock); err != nil { … } // the transaction is rolled back
//	…                                                       // reads and writes
//	return tx.Commit()
//
// A table has the largest fence of every lock name, and its owner. Check locks the rows of the lock's
// names, compares, and stores the lock's fence. The rows stay locked until the transaction ends. So
// the transactions of two holders run one after the other, and never the newer one first. A holder that is
// stopped inside its transaction keeps its successor out until that transaction ends: Check returns ErrRetry
// after Config.Wait (on MySQL and SQLite after the connection's own bound), and so does each
// repetition. CheckPgx is Check for pgx without database/sql.
//
// The locks need redlock.WithFencing. All writers of the protected data must call Check, with the
// same table, Namespace and KeyPrefix.
package sqlfence
