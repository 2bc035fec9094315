package sqlfence

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultTable is the table unless Config.Table is set.
const DefaultTable = "redlock_fences"

// DefaultWait bounds the wait for another holder's transaction unless Config.Wait is set.
const DefaultWait = 5 * time.Second

// maxWait bounds Config.Wait.
const maxWait = 24 * time.Hour

// maxNamespace bounds Config.Namespace, in bytes.
const maxNamespace = 255

// A Dialect is the SQL of a kind of database.
type Dialect int

const (
	// Postgres is PostgreSQL 9.5 and later.
	Postgres Dialect = iota + 1

	// MySQL is MySQL 5.7 and later, and MariaDB 10.2 and later, with InnoDB.
	MySQL

	// SQLite is SQLite 3.35 and later.
	SQLite
)

// String returns the name of the constant.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	default:
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
}

// Config is the configuration of Fences. All processes that write the same data need the same one.
type Config struct {
	// Dialect is the kind of the database. It is required.
	Dialect Dialect

	// Table is the table of the fences. It is an identifier of the letters a to z, digits and
	// underscores, or two of them with a dot: schema and table. Each has 1 to 63 bytes and does not
	// begin with a digit. It must not be a reserved word. The default is DefaultTable.
	Table string

	// Namespace identifies the set of Redis nodes. It is required, and has 1 to 255 bytes of UTF-8
	// without NUL. Fences of different sets of nodes cannot be compared, so a new set needs a new
	// Namespace. Services that lock on the same nodes, under the same names, use the same one.
	Namespace string

	// KeyPrefix is the prefix of redlock.WithKeyPrefix, if the Locker has one.
	KeyPrefix string

	// Wait bounds how long Check waits for the transaction of another holder, on each row. Then Check
	// returns ErrRetry. So a holder that is stopped inside its transaction does not make its successor wait
	// for as long as the database allows. The default is DefaultWait. At least 1 ms and at most 24 h are
	// allowed.
	//
	//   - On PostgreSQL it is the transaction's lock_timeout from Check on. So it also bounds the waits of the
	//     statements after Check. It ends with the transaction. A smaller lock_timeout is kept.
	//   - On MariaDB it is innodb_lock_wait_timeout of the statements of Check alone, in whole seconds, rounded
	//     up. A smaller one is kept.
	//   - On MySQL and SQLite the connection's setting bounds the wait, and Wait does not change it:
	//     innodb_lock_wait_timeout, which is 50 s by default, and busy_timeout.
	Wait time.Duration
}

// Fences checks the fencing tokens of locks. It is safe for concurrent use.
type Fences struct {
	dialect           Dialect
	table             string
	namespace, prefix string
	wait              time.Duration
}

var identifiers = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// New returns Fences. It returns an error if a setting is out of its bounds. It does not connect to
// the database, nor create the table: see Schema.
func New(config Config) (*Fences, error) {
	if config.Table == "" {
		config.Table = DefaultTable
	}
	if config.Wait == 0 {
		config.Wait = DefaultWait
	}
	switch namespace := config.Namespace; {
	case config.Dialect < Postgres || config.Dialect > SQLite:
		return nil, fmt.Errorf("sqlfence: Dialect %d is not one of this package", config.Dialect)
	case !identifiers.MatchString(config.Table):
		return nil, fmt.Errorf("sqlfence: Table %q is not an identifier, nor two with a dot", config.Table)
	case namespace == "":
		return nil, errors.New("sqlfence: Namespace is required: it identifies the set of Redis nodes")
	case len(namespace) > maxNamespace || !plain(namespace):
		return nil, fmt.Errorf("sqlfence: Namespace %q: at most %d bytes of UTF-8, without NUL", namespace, maxNamespace)
	case config.Wait < time.Millisecond || config.Wait > maxWait:
		return nil, fmt.Errorf("sqlfence: Wait %v: 1ms to %v", config.Wait, maxWait)
	}
	return &Fences{
		dialect:   config.Dialect,
		table:     config.Table,
		namespace: config.Namespace,
		prefix:    text(config.KeyPrefix),
		wait:      config.Wait,
	}, nil
}

// Schema returns the statement that creates the table unless it exists. Run it before the first
// Check, for example in the migrations of the database. Two processes that create a table at once may
// both fail on PostgreSQL. Do not run it in the transaction of a Check: on MySQL it commits the
// transaction.
//
// The table may be shared by several Namespaces. A name that is not UTF-8 without NUL, or that begins
// with \x, is stored in hexadecimal digits behind \x.
func (f *Fences) Schema() string {
	return strings.ReplaceAll(map[Dialect]string{
		Postgres: `CREATE TABLE IF NOT EXISTS %table% (
  namespace  TEXT COLLATE "C" NOT NULL,
  key_prefix TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  fence      BIGINT NOT NULL,
  owner      TEXT COLLATE "C" NOT NULL,
  checked_at TIMESTAMP WITH TIME ZONE NOT NULL,
  PRIMARY KEY (namespace, key_prefix, name)
)`,
		// The text collations of MySQL and MariaDB ignore case, trailing spaces, or both. Binary
		// columns compare bytes.
		MySQL: `CREATE TABLE IF NOT EXISTS %table% (
  namespace  VARBINARY(255) NOT NULL,
  key_prefix VARBINARY(1026) NOT NULL,
  name       VARBINARY(1026) NOT NULL,
  fence      BIGINT NOT NULL,
  owner      VARBINARY(255) NOT NULL,
  checked_at DATETIME(6) NOT NULL,
  PRIMARY KEY (namespace, key_prefix, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
		SQLite: `CREATE TABLE IF NOT EXISTS %table% (
  namespace  TEXT NOT NULL,
  key_prefix TEXT NOT NULL,
  name       TEXT NOT NULL,
  fence      BIGINT NOT NULL,
  owner      TEXT NOT NULL,
  checked_at TEXT NOT NULL,
  PRIMARY KEY (namespace, key_prefix, name)
)`,
	}[f.dialect], "%table%", f.table)
}

// hexMark begins the stored form of a name that is in hexadecimal digits.
const hexMark = `\x`

// text returns a form of a name that every database stores as text. Names have any bytes, and no two
// of them have the same form.
func text(name string) string {
	if plain(name) && !strings.HasPrefix(name, hexMark) {
		return name
	}
	return hexMark + fmt.Sprintf("%x", name)
}

func plain(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
