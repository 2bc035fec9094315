package sqlfence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// BenchmarkTransaction measures a transaction that updates one row, without Check and with a Check of
// one name and of ten.
func BenchmarkTransaction(b *testing.B) {
	nodes := redistest.Start(b, 3)
	locker := openLocker(b, nodes)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, one := range []struct {
		name string
		open func(testing.TB) *database
	}{
		{"SQLite", openSQLite},
		{"Postgres", openPostgres},
		{"MariaDB", func(t testing.TB) *database { t.Helper(); return openMariaDB(t, "OFF") }},
		{"MariaDB,interpolateParams", func(t testing.TB) *database { t.Helper(); return openMariaDB(t, "OFF&interpolateParams=true") }},
	} {
		b.Run(one.name, func(b *testing.B) {
			d := one.open(b)
			fences := d.fences(b, "benchmark")
			d.exec(b, "INSERT INTO journal (name, fence) VALUES ('benchmark', 0)")
			update := d.statement("UPDATE journal SET fence = fence + 1 WHERE id = ?")
			for _, check := range []struct {
				name  string
				names []string
			}{{"none", nil}, {"1 name", names[:1]}, {"10 names", names}} {
				b.Run("check="+check.name, func(b *testing.B) {
					var lock *redlock.Lock
					if check.names != nil {
						lock = acquire(b, locker, check.names...)
						defer func() { require.NoError(b, lock.Release(b.Context())) }()
					}
					for b.Loop() {
						tx, err := d.BeginTx(b.Context(), nil)
						require.NoError(b, err)
						if lock != nil {
							require.NoError(b, fences.Check(b.Context(), tx, lock))
						}
						_, err = tx.ExecContext(b.Context(), update, 1)
						require.NoError(b, err)
						require.NoError(b, tx.Commit())
					}
				})
			}
		})
	}
}
