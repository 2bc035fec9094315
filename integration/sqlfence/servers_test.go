package sqlfence_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql" // registers the driver
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

// startPostgres starts a PostgreSQL server, and returns the URL of its database.
func startPostgres(t testing.TB) (url string) {
	t.Helper()
	address := startServer(t, image("REDLOCK_TEST_POSTGRES", postgresImage), "5432/tcp", map[string]string{"POSTGRES_PASSWORD": password})
	return "postgres://postgres:" + password + "@" + address + "/postgres"
}

func openPostgres(t testing.TB) *database {
	t.Helper()
	d := open(t, sqlfence.Postgres, "pgx", startPostgres(t), "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	d.blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
	return d
}

// openMariaDB starts a MariaDB server, and opens its database. parameters are further parameters of
// the driver.
func openMariaDB(t testing.TB, parameters string) *database {
	t.Helper()
	address := startServer(t, image("REDLOCK_TEST_MARIADB", mariadbImage), "3306/tcp",
		map[string]string{"MARIADB_ROOT_PASSWORD": password, "MARIADB_DATABASE": "test"})
	d := open(t, sqlfence.MySQL, "mysql", "root:"+password+"@tcp("+address+")/test?"+parameters, "BIGINT AUTO_INCREMENT PRIMARY KEY")
	d.blocked = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
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
