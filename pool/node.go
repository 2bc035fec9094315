package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// ErrClosed reports that the node was closed.
var ErrClosed = errors.New("pool: node is closed")

// Node is one unit of the vote: a Redis master, a master behind Sentinels, or a Cluster. It dials
// in the background from Open on, and again whenever its connection ends. It is safe for
// concurrent use.
type Node struct {
	cfg      *Config             // a pointer, so that fmt does not print its fields; never changed
	settings *transport.Settings // how its server is dialled; of a Cluster its members
	dialer   transport.Dialer
	kind     kind
	unowned  *command.Membership                // of a node without a Locker
	member   atomic.Pointer[command.Membership] // of its Locker, otherwise unowned; of a Cluster's members whole has it
	label    string                             // its name in findings
	whole    *Node                              // the Cluster for a member of it, otherwise the node itself
	pipeline *pipeline                          // nil for a Cluster, whose members have one each
	life     context.Context                    // ends with Close
	stop     context.CancelFunc
	workers  sync.WaitGroup // the pipeline's goroutine
	count    counters
	lines    *background.Queue[logLine]
	pruned   *background.Queue[droppedCommand] // answers them
}

// Open makes a node with its own connections. It returns an error only for a wrong Config, never
// because the server cannot be reached.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := newNode(&cfg)
	switch {
	case cfg.Sentinels != nil:
		sr := newSentinelResolver(n)
		n.kind, n.dialer = sr, sr
	case len(cfg.Cluster) > 0:
		n.kind = newCluster(n)
	}
	n.start(context.Background())
	return n, nil
}

// newNode makes a node that does not dial before start.
func newNode(cfg *Config) *Node {
	n := &Node{cfg: cfg, settings: cfg.transport(), label: cfg.Name}
	n.dialer = n.settings
	n.kind, n.whole = single{n}, n
	n.unowned = &command.Membership{Clock: cfg.Clock}
	n.member.Store(n.unowned)
	n.lines = background.NewQueue(maxLines, n.write)
	n.pruned = background.NewQueue(0, droppedCommand.fail)
	return n
}

// Wrap makes a node from a redigo pool that a service already has. It dials with the pool's
// DialContext, or Dial, and so with its address, TLS and password. It dials its own connections
// and borrows none, because locks must not wait for the service's other work. The pool's limits,
// TestOnBorrow and timeouts do not apply to them. With Dial alone a dial that hangs cannot be
// cancelled; Stats.HangingDials counts such goroutines. Close does not close the pool.
//
// cfg needs a Name, and has no field that says how to dial: no address, credentials, TLS, Dial,
// Sentinels or Cluster. Its Database is the one that the pool's dial selects. A connection with
// another database does not vote, because locks in two databases do not exclude each other.
//
// Replies are not bounded on these connections, because the pool's dial hides the socket: redigo
// allocates what a reply announces, so one hostile reply can end the process. A node made by Open
// does not have this weakness.
func Wrap(p *redis.Pool, cfg Config) (*Node, error) {
	cfg, err := wrapConfig(p, cfg)
	if err != nil {
		return nil, err
	}
	n := newNode(&cfg)
	n.dialer = transport.NewWrapped(n.settings, p, &n.count.hanging)
	n.start(context.Background())
	return n, nil
}

// start begins to dial.
func (n *Node) start(parent context.Context) {
	ctx, end := context.WithCancel(parent)
	n.life, n.stop = ctx, end
	n.kind.start(ctx)
}

// membership returns what the node knows of its Locker.
func (n *Node) membership() *command.Membership { return n.whole.member.Load() }

// expired reports whether a command's not-after instant has passed.
func (n *Node) expired(c *command.Command) bool { return c.Expired(n.membership().Clock.Now()) }

// Name returns the node's name in votes, errors and logs.
func (n *Node) Name() string { return n.cfg.Name }

// String returns the node's address without its password. For a node made by Wrap it returns
// the name, because the address is unknown.
func (n *Node) String() string {
	if _, wrapped := n.dialer.(*transport.Wrapped); wrapped {
		return n.cfg.Name
	}
	return n.cfg.String()
}

// GoString returns what String returns, for %#v. It reads no field that changes.
func (n *Node) GoString() string { return "pool.Node(" + n.String() + ")" }

// Close ends the connections and answers the commands in flight: unsent ones as Failed, sent ones
// as Unknown. It does not wait for the server, so a frozen one does not delay it. It returns when
// all goroutines have ended, except hanging dials of a wrapped pool. It may be called more than
// once.
func (n *Node) Close() error {
	n.kind.stop()
	if n.pipeline != nil {
		n.pipeline.close() // before the goroutines end: from now on nothing is kept for a next connection
	}
	n.stop()
	n.workers.Wait()
	n.pruned.Join(n.cfg.Clock, n.cfg.DialTimeout)
	return nil
}

// logLine is an event of the node's connections.
type logLine struct {
	msg string
	err error
}

// maxLines bounds the lines that wait, in case a handler blocks.
const maxLines = 16

// log logs an event of the node's connections, in the order of the events, on a separate goroutine: the
// handler is the user's, and may block, panic, or close this node.
func (n *Node) log(msg string, err error) {
	if n.cfg.Logger != nil {
		_ = n.lines.Add(logLine{msg, err}) // or the line is dropped, because waiting for the handler would stop the node
	}
}

func (n *Node) write(l logLine) {
	defer func() { _ = recover() }() // a panic of the user's handler cannot be reported
	if l.err != nil && !errors.Is(l.err, ErrClosed) {
		n.cfg.Logger.Warn("redlock node: "+l.msg, "node", n.cfg.Name, "error", l.err)
		return
	}
	n.cfg.Logger.Info("redlock node: "+l.msg, "node", n.cfg.Name)
}
