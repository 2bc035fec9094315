package redlock

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/pool"
)

// Locker acquires locks on a fixed set of nodes. A service makes one and shares it. Its methods are
// safe for concurrent use. Contenders of one Locker queue inside the process, and only the first of
// them sends requests. A Locker that holds no lock has no goroutine of its own. The methods of the
// zero Locker, including Close, return ErrClosed.
type Locker struct {
	core

	closed   chan struct{} // closed when the nodes are; not sync.Once, for the reason at releaseCall
	closeErr error         // the result of Close; readable when closed is closed
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
		core: core{
			nodes:    nodes,
			set:      set,
			guard:    set.newGuard(nodes),
			timers:   timer.New(set.clock),
			registry: registry{closing: make(chan struct{}), locks: make(map[string]*hold)},
		},
		closed: make(chan struct{}),
	}
	if err := l.join(); err != nil {
		return nil, err
	}
	voting := make([]command.Node, len(nodes))
	for i, n := range nodes {
		voting[i] = n
	}
	l.reporter = newReporter(&l.set, voting)
	l.group = newGroup(&l.core, voting)
	l.waiting = newWaitTable(&l.core)
	l.ends = background.NewPool(func(h *hold) { lockOf(h).onDue() })
	l.undos = background.NewQueue(0, func(h *hold) {
		h.startUndo()
		h.askSuccessor()
	})
	if set.logger != nil {
		l.holdLog = report.NewHeld(l.reporter.Reporter, nodeNames(nodes))
		l.timers.OnPause = l.notePause
	}
	if l.reporter != nil {
		post(l.reporter, l.reporter.hooks.Opened, l)
	}
	return l, nil
}

// String describes the Locker by the names of its nodes.
func (l *Locker) String() string {
	return "locker over " + quoted(nodeNames(l.nodes))
}

// GoString returns String, so that %#v shows no field that changes concurrently.
func (l *Locker) GoString() string { return l.String() }

// join takes the nodes over, all or none.
func (l *Locker) join() error {
	waiters, servers := any(command.WaitersChannel(l.set.prefix)), command.NewServers()
	for i, n := range l.nodes {
		err := n.Join(&command.Membership{
			Clock: l.set.clock, Guard: l.guard, WaitersChannel: waiters, Unsafe: l.set.votesUnfit(n.Name()), Servers: servers,
		})
		if err != nil {
			for _, taken := range l.nodes[:i] {
				taken.Leave()
			}
			return invalid("node %s (%v): %w", n.Name(), n, err)
		}
	}
	return nil
}

// Close shuts the Locker down gracefully, like http.Server.Shutdown. New and waiting acquisitions
// fail with ErrClosed, and nothing is acquired any more. The contexts of Lead end at once, with cause
// ErrClosed, because a leader does not end by itself. Close then waits for the other holders to release
// their locks, and for the nodes to delete the keys of locks that have ended.
//
// The contexts of Do, Acquire and Resume end when ctx ends, with cause ErrClosed. If ctx has a deadline,
// they end before it, so that the holders have time to release. That is the node timeout, or WithStopMargin
// if that is longer, but at most a quarter of the time that was left when Close was called. Automatic
// extensions continue until then, also those of Lead. If ctx never ends, Close waits for as long as the
// holders take.
//
// Close waits for the node timeout at most until the log has the line of each lock that was lost.
//
// Close does not wait long for a minority of unreachable or frozen nodes. If a quorum has confirmed
// a release, or an attempt never became a lock, the other nodes get a limited time. It is the sum
// of their hard timeout and dial timeout (pool.Config, 10 s by default), from when their commands
// were submitted. Close waits for an unconfirmed release until its keys have expired. The error
// matches ErrKeysLeft if keys are left to expire by their TTL. It does not report keys that nodes have refused to
// delete because a right is missing: if a quorum did so, Release has returned ErrNoQuorum.
//
// Unlike Release, Close returns when ctx ends, because holders may take any time. Locks still held then
// are not released. They expire by their TTL. The error names a few of them ([Locker.Held] has all), and
// matches the cause of ctx.
// If ctx had ended before Close was called, pending deletions get the node timeout. Finally Close closes
// the nodes.
//
// Close may be called more than once, also concurrently. The call that ends first closes the nodes. It ends
// the others, and all return its error.
func (l *Locker) Close(ctx context.Context) error {
	if l.registry.closing == nil { // not made by New
		return ErrClosed
	}
	c := &closing{l: &l.core, ctx: ctx, began: l.now()}
	if ctx.Err() != nil {
		c.grace = l.set.readTimeout()
	}
	l.registry.close()
	c.await()
	if cause := context.Cause(ctx); l.registry.finish() {
		l.closeErr = c.result(cause)
		close(l.closed)
	}
	<-l.closed
	return l.closeErr
}
