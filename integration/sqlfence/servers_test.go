package sqlfence_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
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

// init keeps the driver from printing that a server does not answer yet.
func init() {
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
}

// The servers of this process. Tests have databases of their own there, because to start a server takes longer than
// most tests.
var (
	postgres = &sharedServer{
		variable: "REDLOCK_TEST_POSTGRES", image: "postgres:17", folder: "/var/lib/postgresql/data", port: "5432/tcp", env: map[string]string{"POSTGRES_PASSWORD": password},
		driver: "pgx", first: "postgres", url: "postgres://postgres:" + password + "@%s/%s",
	}
	mariaDB = &sharedServer{
		variable: "REDLOCK_TEST_MARIADB", image: "mariadb:11", folder: "/var/lib/mysql", port: "3306/tcp", env: map[string]string{"MARIADB_ROOT_PASSWORD": password},
		driver: "mysql", first: "mysql", url: "root:" + password + "@tcp(%s)/%s",
	}
)

const password = "fences"

// sharedServer is a database server in a container.
type sharedServer struct {
	variable, image string // the environment variable that names another image
	folder          string // of the image's data; scripts/sql-image has it in /data
	port            string
	env             map[string]string
	driver          string
	first           string // a database that the server has
	url             string // of an address and a database

	mu        sync.Mutex // guards what follows
	container testcontainers.Container
	address   string
	databases int
}

// open starts the server if it has not started yet, and returns the URL of a new database.
func (s *sharedServer) open(t testing.TB) (url string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		s.startLocked(t)
	}
	db, err := sql.Open(s.driver, fmt.Sprintf(s.url, s.address, s.first))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	d := &database{DB: db}
	d.awaitReady(t)
	s.databases++
	name := fmt.Sprintf("test_%d", s.databases)
	d.exec(t, "CREATE DATABASE "+name)
	return fmt.Sprintf(s.url, s.address, name)
}

// startLocked starts the server. It may not answer yet.
func (s *sharedServer) startLocked(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // it may pull the image
	defer cancel()
	run := cmp.Or(os.Getenv("REDLOCK_TEST_RUN"), "direct")
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var err error
	s.container, err = testcontainers.Run(
		ctx, cmp.Or(os.Getenv(s.variable), s.image),
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithLabels(map[string]string{redistest.Label: run}),
		testcontainers.WithEnv(s.env),
		testcontainers.WithExposedPorts(s.port),
		testcontainers.WithTmpfs(map[string]string{s.folder: "", "/data": ""}), // on disk, a busy machine takes minutes for the start
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.CgroupParent = redistest.Parent()
			hc.PortBindings = network.PortMap{network.MustParsePort(s.port): {{HostIP: loopback}}}
		}),
	)
	require.NoError(t, err)
	mapped, err := s.container.MappedPort(ctx, s.port)
	require.NoError(t, err)
	s.address = net.JoinHostPort(loopback.String(), mapped.Port())
}

// remove removes the server when all tests have ended. It returns 1 if that failed.
func (s *sharedServer) remove() (status int) {
	if err := testcontainers.TerminateContainer(s.container, testcontainers.StopTimeout(0)); err != nil {
		fmt.Printf("sqlfence: remove the server of %s: %v\n", s.image, err)
		return 1
	}
	return 0
}

// postgresBlocked counts the transactions of a database that wait for a lock.
const postgresBlocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

func openPostgres(t testing.TB) *database {
	t.Helper()
	d := open(t, sqlfence.Postgres, "pgx", postgres.open(t), "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	d.rejects = func(level sql.IsolationLevel) bool { return level != sql.LevelReadCommitted }
	d.blocked = postgresBlocked
	d.bound = "SHOW lock_timeout"
	return d
}

// openMariaDB opens a database of MariaDB. isolation is the connections' setting innodb_snapshot_isolation, whose default
// is OFF or ON by version.
func openMariaDB(t testing.TB, isolation string) *database {
	t.Helper()
	d := open(t, sqlfence.MySQL, "mysql", mariaDB.open(t)+"?innodb_snapshot_isolation="+isolation, "BIGINT AUTO_INCREMENT PRIMARY KEY")
	d.rejects = func(level sql.IsolationLevel) bool { return isolation == "ON" && level == sql.LevelSerializable }
	d.bound = "SELECT @@innodb_lock_wait_timeout"
	// It counts those of all databases. The table innodb_trx would be as it was up to 100 ms ago.
	d.blocked = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
	return d
}
