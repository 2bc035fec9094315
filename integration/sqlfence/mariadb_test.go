package sqlfence_test

import "testing"

func TestMariaDB(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"OFF", "ON"} {
		t.Run("innodb_snapshot_isolation="+isolation, func(t *testing.T) {
			run(t, func(t testing.TB) *database {
				t.Helper()
				return openMariaDB(t, isolation)
			})
		})
	}
}
