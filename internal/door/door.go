// Package door is how package doctor, the command and tests get behind the API: to the settings of a Locker, and to
// what it does with its locks. So they use what the Locker uses, and users see no
// method for it. A second list of settings could differ, and write markers that stop all clients.
package door

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
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

// ForReads is a redlock.Option of a Locker that acquires nothing: it also takes nodes that need the restart guard, and
// begins none. Package redlock sets it.
var ForReads any

// Observe sets the observer of a *redlock.Locker that was not used yet. It is for tests. Package redlock sets it.
var Observe func(locker any, o vote.Observer)

// Node is a node of a Locker.
type Node interface{ Name() string }
