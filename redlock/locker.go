package redlock

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/lease"
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
	nodes    []command.Voter // they belong to this Locker, and end with it
	set      settings
	guard    *guard.Settings          // nil without the restart guard
	group    *vote.Group              // the nodes as voters
	timers   *timer.Queue             // node timeouts and ends of held locks
	waiting  *waiting.Table           // waiters and holders of this process, by name
	reporter *reporter                // nil without traces and without a logger
	ends     *background.Queue[*Lock] // of locks whose time is over and that have contexts or shares
	undos    *background.Queue[*Lock] // of locks that the library ended: each stays registered until its undo was answered
	holdLog  *report.Held             // nil without a logger

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
	l.undos = background.NewQueue(0, func(lk *Lock) {
		lk.startUndo()
		lk.askSuccessor()
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

func (l *Locker) now() clock.Instant { return l.set.clock.Now() }

// isClosed reports whether the Locker was closed. The zero Locker counts as closed.
func (l *Locker) isClosed() bool { return l.registry.isClosed() }

// String describes the Locker by the names of its nodes.
func (l *Locker) String() string {
	return "locker over " + quoted(nodeNames(l.nodes))
}

// GoString returns String, so that %#v shows no field that changes concurrently.
func (l *Locker) GoString() string { return l.String() }

// HeldLock describes a lock that a Locker holds.
type HeldLock struct {
	Names      []string      // sorted
	ID         string        // Lock.ID
	Since      time.Time     // the start of the acquisition, or of Resume
	Remaining  time.Duration // Lock.Remaining
	Fence      int64         // Lock.Fence
	AutoExtend bool          // WithAutoExtend
}

// Held returns the locks that this Locker holds now, the oldest first, for a status page or a log. Locks
// that are equally old come in the order of their IDs. It leaves out shares, and locks that are being
// acquired or released. It needs no network. The result belongs to the caller.
func (l *Locker) Held() []HeldLock {
	if l.registry.closing == nil {
		return nil // the zero Locker
	}
	var held []HeldLock
	now, wall := l.now(), time.UnixMicro(l.set.wall())
	for _, lk := range l.registry.all() {
		left := lk.Remaining()
		if left <= 0 { // it is being acquired, or has ended
			continue
		}
		held = append(held, HeldLock{
			Names: lk.Names(), ID: lk.ID(), Since: wall.Add(-now.Sub(lk.holder.Began)), Remaining: left, Fence: lk.Fence(),
			AutoExtend: lk.lease.Terms.AutoExtend,
		})
	}
	slices.SortFunc(held, func(a, b HeldLock) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return held
}

// Stats is the present state of a Locker, for metrics and status pages.
type Stats struct {
	// Held is how many locks are held. It counts no shares, and no locks that are being acquired or
	// released.
	Held int
	// Waiting is how many calls of Acquire, AcquireAll, Do and Lead wait: for other requests of the
	// Locker, for a holder, or for the nodes.
	Waiting int
	// Nodes are the Locker's nodes, in its order. It is empty from the call of Close on.
	Nodes []NodeStats
}

// NodeStats is the present state of a node, as a Locker sees it.
type NodeStats struct {
	Node string
	// Err is why the node does not vote, or nil if it votes. It matches ErrUnfit if the server is
	// unfit, and is a *QuarantineError in a quarantine.
	//
	// It says what is known without asking the server. A server that stops answering is noticed by
	// the next request or health check. A quarantine, or another reason of the restart guard, is
	// known from the first acquisition on. After an acquisition that the server answered by an error,
	// Err is that error until the server answers another one by a vote, or is dialled again.
	Err error
}

// Stats returns what the Locker holds and what waits now. It counts locks and calls, and not events,
// so it is right also after hooks of Trace were dropped. The numbers are read one after another, and
// may be of slightly different instants.
//
// It needs no network and never waits for it. It takes time in proportion to the number of locks. It
// is safe for concurrent use. The zero Locker has the zero Stats. Held lists the locks.
func (l *Locker) Stats() Stats {
	if l.registry.closing == nil {
		return Stats{}
	}
	s := Stats{Waiting: int(l.waits.Load())}
	now := l.now()
	for _, lk := range l.registry.all() {
		if lk.remaining(now) > 0 {
			s.Held++
		}
	}
	if l.isClosed() {
		return s
	}
	for _, n := range l.nodes {
		s.Nodes = append(s.Nodes, NodeStats{n.Name(), n.WhyNotVoting()})
	}
	return s
}

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

// notePause has the log say once that the process did not run, if that was long for some lock.
func (l *Locker) notePause(p timer.Pause) {
	l.holdLog.Paused(p, func() (locks int) {
		for _, lk := range l.registry.all() {
			if lease.LongPause(p.For(), lk.opts.ttl) {
				locks++
			}
		}
		return locks
	})
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
	c := &closing{l: l, ctx: ctx, began: l.now()}
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
