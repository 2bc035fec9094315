// Package door is how package doctor, the command and tests get behind the API: to the settings of a Locker, to
// what it does with its locks, and to the servers of a node. So they use what the Locker uses, and users see no
// method for it. A second list of settings could differ, and write markers that stop all clients.
package door

import (
	"context"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// SettingsOf returns the settings of a *redlock.Locker, or redlock.ErrClosed. Package redlock sets it.
var SettingsOf func(locker any) (Settings, error)

// Settings are what a Locker was made with.
type Settings struct {
	Nodes   []Node
	Guard   *guard.Settings        // the restart guard; nil without
	Exempts func(node string) bool // reports whether a node votes although it is unfit
	Prefix  string                 // of the locks' keys
	Fencing bool
	// Clustered reports that at least one node is a Redis Cluster.
	Clustered bool
	Timeout   time.Duration // for an answer of a node
	Clock     clock.Clock
}

// Observe sets the observer of a *redlock.Locker that was not used yet. It is for tests. Package redlock sets it.
var Observe func(locker any, o vote.Observer)

// Node is a node of a Locker.
type Node interface{ Name() string }

// Servers are the servers of a node.
type Servers struct {
	All []Server
	// Cluster reports that the node is a Redis Cluster. Unserved of its slots have no master; Gap says why,
	// and what to do.
	Cluster  bool
	Unserved int
	Gap      string
	// Sentinels returns the last answers of the node's Sentinels. It is nil without Sentinels.
	Sentinels func() []SentinelAnswer
}

// Server is a server of a node.
type Server interface {
	// Name returns the name of the node, and the address if the node is a Cluster.
	Name() string
	// Dial connects as the node does, by its dial, with its TLS, credentials and database. It ends with ctx,
	// with the node, and after the dial timeout.
	Dial(ctx context.Context) (Conn, error)
}

// Conn is a connection that its owner alone uses. It ends with the node at the latest. Its errors are no
// context's, but for the cause of a context that has one.
type Conn interface {
	// Facts returns what the server said of itself when the connection was made, and Faults what keeps it
	// from voting by that.
	Facts() command.Facts
	Faults() []command.Fault
	// Address returns the address that the node's Sentinels named; it is empty without Sentinels.
	Address() string
	// Run sends all calls in one flush, and takes their replies in order. The first error of a Take is
	// returned after all replies were read. When ctx is done, or the dial timeout is over, it closes the
	// socket.
	Run(ctx context.Context, calls ...Call) error
	Close()
}

// Call is a command, and what takes its reply. Of an error of the server, errors.As finds the *pool.ServerError.
type Call struct {
	Name string
	Args []any
	Take func(reply any, err error) error
}

// SentinelAnswer is the last answer of one Sentinel of a node.
type SentinelAnswer struct {
	Address string // of the Sentinel
	Master  string // the master that it named; empty if it knows none, or has not answered yet
	Others  int    // the number of other Sentinels that it knows
	Err     string // why it could not be queried since; empty if it could
}
