package redlock

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/env"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// Locker acquires locks on a fixed set of nodes. A service makes one and shares it. Its methods are
// safe for concurrent use. Contenders of one Locker queue inside the process, and only the first of
// them sends requests. A Locker that holds no lock has no goroutine of its own. The methods of the
// zero Locker, including Close, return ErrClosed.
type Locker struct {
	nodes     []command.Voter // they belong to this Locker, and end with it
	set       settings
	guard     *guard.Settings          // nil without the restart guard
	group     *vote.Group              // the nodes as voters
	clustered bool                     // at least one node is a Redis Cluster
	timers    *timer.Queue             // node timeouts and ends of held locks
	waiting   *waiting.Table           // waiters and holders of this process, by name
	reporter  *reporter                // nil without traces and without a logger
	ends      *background.Queue[*Lock] // of locks whose time is over and that have contexts or shares
	undos     *background.Queue[*Lock] // of locks that the library ended
	holdLog   *report.Held             // nil without a logger
	asking    atomic.Int32             // queries for the holders after locks that were lost

	registry registry      // its locks
	closed   chan struct{} // closed when the nodes are; not sync.Once, for the reason at releaseCall
	closeErr error         // the result of Close; readable when closed is closed
	waits    atomic.Int64  // requests that wait
}

// New makes a Locker over nodes that the caller opened. The nodes belong to the Locker from then on, and
// its Close closes them. If New fails they remain the caller's to close. A node that was given to another
// Locker, or is closed, is an error.
//
// Every client of the same locks must use the same list of nodes, in any order, because a quorum is
// a majority of the listed nodes, not of the reachable ones.
//
// One node is allowed and gives a lock on a single server. An even number of nodes tolerates no
// more failures than one node fewer. There are at most 64. New sends nothing. Its errors match
// ErrInvalid.
func New(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	voters := make([]command.Voter, len(nodes))
	for i, n := range nodes {
		if n != nil {
			voters[i] = command.FromPool(n)
		}
	}
	return newLocker(voters, opts)
}

// newLocker is New for any nodes.
func newLocker(nodes []command.Voter, opts []Option) (*Locker, error) {
	set, err := settingsOf(opts)
	if wrong := checkNodes(nodes); wrong != nil {
		return nil, joinInvalid(err, wrong)
	}
	if err := joinInvalid(err, set.checkUnsafe(nodeNames(nodes)), set.checkKinds(nodes)); err != nil {
		return nil, err
	}
	set.clustered = clustered(nodes)
	l := &Locker{
		nodes:    nodes,
		set:      set,
		guard:    set.newGuard(nodes),
		timers:   timer.New(set.clock),
		registry: registry{closing: make(chan struct{}), locks: make(map[string]*Lock)},
		closed:   make(chan struct{}),
	}
	if err := l.join(); err != nil {
		return nil, err
	}
	voting := make([]command.Node, len(nodes))
	for i, n := range nodes {
		voting[i] = n
	}
	l.reporter = newReporter(&l.set, voting)
	l.group = newGroup(l, voting)
	l.waiting = newWaitTable(l)
	l.ends = background.NewPool((*Lock).onDue)
	l.undos = background.NewQueue(0, (*Lock).undoEnded)
	if set.logger != nil {
		l.holdLog = report.NewHeld(l.reporter.Reporter, nodeNames(nodes))
		l.timers.OnPause = l.notePause
	}
	post(l.reporter, l.traces().Opened, l)
	return l, nil
}

// Open makes a Locker and a pool.Node for each URL (see pool.ParseURL). Open dials in the background, so
// an unreachable node is not an error. Errors match ErrInvalid. They identify a wrong URL by its
// position, counted from 1, and show no password.
func Open(urls []string, opts ...Option) (*Locker, error) {
	set, wrong := settingsOf(opts)
	configs, err := parseAll(urls, set)
	if err := joinInvalid(wrong, err); err != nil {
		return nil, err // nothing has been dialled yet
	}
	nodes := make([]*pool.Node, 0, len(urls))
	for _, cfg := range configs {
		n, err := pool.Open(cfg)
		if err != nil {
			return nil, oneline.Join(invalid("%w", err), closeAll(nodes))
		}
		nodes = append(nodes, n)
	}
	l, err := New(nodes, opts...)
	if err != nil {
		return nil, oneline.Join(err, closeAll(nodes))
	}
	return l, nil
}

// OpenEnv is Open with the settings of the environment, which are those of the command. The variables
// are REDLOCK_NODES (URLs, separated by commas) or REDLOCK_NODES_FILE (a file with the list, or with one
// URL per line), REDLOCK_PREFIX (WithKeyPrefix) and REDLOCK_GUARD (WithRestartGuard, such as "30s"). The
// opts come after them. Other than the command, a program reads URLs of Sentinels and Clusters only if it imports their
// packages: see pool.ParseURL. Errors match ErrInvalid, and show no password.
func OpenEnv(opts ...Option) (*Locker, error) {
	urls, err := env.ReadNodes(os.Getenv)
	guard, wrong := env.ReadGuard(os.Getenv)
	if err := oneline.Join(err, wrong); err != nil {
		return nil, invalid("%w", err)
	}
	given := []Option{WithKeyPrefix(os.Getenv(env.Prefix))}
	if guard != 0 {
		given = append(given, WithRestartGuard(guard))
	}
	return Open(urls, append(given, opts...)...)
}

// parseAll parses the URLs. Its error identifies wrong URLs by position, because they may contain
// passwords.
func parseAll(urls []string, set settings) ([]pool.Config, error) {
	list := make([]pool.Config, 0, len(urls))
	encrypted := false
	var errs []error
	for i, u := range urls {
		cfg, err := pool.ParseURL(u)
		if err != nil {
			errs = append(errs, fmt.Errorf("URL %d of %d: %w", i+1, len(urls), err))
		}
		cfg.Clock, cfg.Logger = set.clock, set.logger
		if cfg.TLS != nil {
			encrypted = true
			set.encrypt(&cfg)
		}
		list = append(list, cfg)
	}
	switch {
	case errs != nil:
		return nil, invalid("%w", oneline.Join(errs...))
	case set.tls != nil && !encrypted:
		return nil, invalid("WithTLSConfig: no URL has the scheme rediss")
	}
	if len(list) == 0 {
		return nil, errNoNodes
	}
	names, err := nodelist.Names(list)
	if err != nil {
		return nil, invalid("%w", err)
	}
	return list, set.checkUnsafe(names)
}

var errNoNodes = invalid("no nodes: at least one is needed, usually 3 or 5")

func closeAll[N io.Closer](nodes []N) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return oneline.Join(errs...)
}

func checkNodes(nodes []command.Voter) error {
	if len(nodes) == 0 {
		return errNoNodes
	}
	if err := nodelist.CheckNumber(len(nodes)); err != nil {
		return invalid("%w", err)
	}
	seen := make(map[string]bool, len(nodes))
	for i, n := range nodes {
		switch {
		case n == nil:
			return invalid("node %d of %d is nil", i+1, len(nodes))
		case seen[n.Name()]:
			return invalid("node %s is listed twice", n.Name())
		}
		seen[n.Name()] = true
	}
	return nil
}

func nodeNames(nodes []command.Voter) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return names
}

func (l *Locker) now() clock.Instant { return l.set.clock.Now() }

// isClosed reports whether the Locker was closed. The zero Locker counts as closed.
func (l *Locker) isClosed() bool { return l.registry.isClosed() }

// newWaitTable makes the table of the Locker's waiters and holders.
func newWaitTable(l *Locker) *waiting.Table {
	return waiting.NewTable(waiting.Config{
		Nodes: l.group.Nodes, Clock: l.set.clock, Timers: l.timers, Prefix: l.set.prefix, Backoff: l.set.backoff,
		PollTimeout: l.set.readTimeout(), OutageLeft: quarantineLeft, Closing: l.registry.closing, ErrClosed: ErrClosed,
	})
}
