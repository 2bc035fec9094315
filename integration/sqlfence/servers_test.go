package sqlfence_test

import (
	"context"
	"database/sql"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

const (
	postgresImage = "postgres:17"
	mariadbImage  = "mariadb:11"

	password = "fences"
)

// init keeps the driver from printing that a server does not answer yet.
func init() {
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
}

// startPostgres starts a PostgreSQL server, and returns the URL of its database.
func startPostgres(t testing.TB) (url string) {
	t.Helper()
	address := startServer(t, image("REDLOCK_TEST_POSTGRES", postgresImage), "5432/tcp", map[string]string{"POSTGRES_PASSWORD": password})
	return "postgres://postgres:" + password + "@" + address + "/postgres"
}

func openPostgres(t testing.TB) *database {
	t.Helper()
	d := open(t, sqlfence.Postgres, "pgx", startPostgres(t), "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	d.rejects = func(level sql.IsolationLevel) bool { return level != sql.LevelReadCommitted }
	d.blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
	d.bound = "SHOW lock_timeout"
	return d
}

// openMariaDB starts a MariaDB server, and opens its database. isolation is the server's setting
// innodb_snapshot_isolation, whose default is OFF or ON by version.
func openMariaDB(t testing.TB, isolation string) *database {
	t.Helper()
	address := startServer(t, image("REDLOCK_TEST_MARIADB", mariadbImage), "3306/tcp",
		map[string]string{"MARIADB_ROOT_PASSWORD": password, "MARIADB_DATABASE": "test"})
	d := open(t, sqlfence.MySQL, "mysql", "root:"+password+"@tcp("+address+")/test?innodb_snapshot_isolation="+isolation, "BIGINT AUTO_INCREMENT PRIMARY KEY")
	d.rejects = func(level sql.IsolationLevel) bool { return isolation == "ON" && level == sql.LevelSerializable }
	d.bound = "SELECT @@innodb_lock_wait_timeout"
	// The table innodb_trx would be as it was up to 100 ms ago.
	d.blocked = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
	return d
}

func image(variable, image string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return image
}

// startServer starts a server in a container, and returns the address of its port. The server may
// not answer yet. The container is removed when the test ends.
func startServer(t testing.TB, image, port string, env map[string]string) (address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // it may pull the image
	defer cancel()
	run := os.Getenv("REDLOCK_TEST_RUN")
	if run == "" {
		run = "direct"
	}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	ctr, err := testcontainers.Run(
		ctx, image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{redistest.Label: run}),
		testcontainers.WithEnv(env),
		testcontainers.WithExposedPorts(port),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: loopback}}}
		}),
	)
	testcontainers.CleanupContainer(t, ctr, testcontainers.StopTimeout(0))
	require.NoError(t, err)
	mapped, err := ctr.MappedPort(ctx, port)
	require.NoError(t, err)
	return net.JoinHostPort(loopback.String(), mapped.Port())
}
