package pool

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// ErrClosed is why commands fail on a node that was closed.
var ErrClosed = errors.New("pool: the node is closed")

// Node is one Redis master, or a Cluster. It dials in the background from Open on, and again
// whenever its connection ends. It is safe for concurrent use.
type Node struct {
	cfg       *Config // behind a pointer fmt does not print its fields; never changed
	dialer    dialer
	resolver  *sentinelResolver // of Sentinels; nil without
	cluster   *cluster          // that it is; nil for a single master
	shard     *shard            // of a Cluster, that it is a part of; nil otherwise
	pipelines []*pipeline
	seed      maphash.Seed
	life      context.Context // ends with Close
	stop      context.CancelFunc
	workers   sync.WaitGroup // one keeper goroutine for each lane
	exams     examineLimit
	histories guardHistories
	count     counters
}

// Open makes a node of its own connections. It fails for a wrong Config only,
// never because the master can't be reached now.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: &cfg}
	switch {
	case cfg.Sentinels != nil:
		n.resolver = newSentinelResolver(n)
		n.resolver.begin()
		n.dialer = n.resolver
	case len(cfg.Cluster) > 0:
		n.cluster = newCluster(n)
		n.dialer = n.cluster
	default:
		n.dialer = newOwnPool(&cfg)
	}
	n.start(context.Background())
	return n, nil
}

// OpenURL is ParseURL and Open in one.
func OpenURL(rawURL string) (*Node, error) {
	cfg, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return Open(cfg)
}

// Wrap makes a node of a redigo pool that a service already has: it dials by the
// pool's own DialContext, or Dial, and so with its address, TLS and password.
// The connections it dials are its own, never borrowed: locks must not wait for
// the service's other work (docs/dev/hazards.md H76), and the pool's limits, TestOnBorrow
// and timeouts do not apply to them. With Dial alone a dial that hangs can't be
// cancelled; Stats.HangingDials counts such goroutines. The pool is not closed
// by Close. The name must tell the node from the others.
//
// Replies are not bounded on these connections, because the pool's dial hides the socket:
// redigo allocates what a reply announces, so one hostile reply can end the process. A node
// made by Open does not have this weakness.
func Wrap(name string, p *redis.Pool, opts ...WrapOption) (*Node, error) {
	cfg, err := wrapConfig(name, p, opts)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: &cfg}
	n.dialer = newWrappedPool(p, &n.count.hanging)
	n.start(context.Background())
	return n, nil
}

func (n *Node) start(parent context.Context) {
	ctx, end := context.WithCancel(parent)
	n.life, n.stop, n.seed = ctx, end, maphash.MakeSeed()
	if n.cluster != nil { // its members have the lanes
		n.workers.Go(func() { n.cluster.refreshLoop(ctx) })
		return
	}
	for range n.cfg.Connections {
		l := newPipeline(n)
		n.pipelines = append(n.pipelines, l)
		n.workers.Go(func() { l.run(ctx) })
	}
}

// Name is the node's name: in votes, errors and logs.
func (n *Node) Name() string { return n.cfg.Name }

// String returns the node's address without its password. For a node made by Wrap it returns
// the name, because the address is unknown.
func (n *Node) String() string {
	if _, wrapped := n.dialer.(*wrappedPool); wrapped {
		return n.cfg.Name
	}
	return n.cfg.String()
}

// GoString is String: %#v shows no password either, and no field that changes meanwhile.
func (n *Node) GoString() string { return "pool.Node(" + n.String() + ")" }

// Kind are what a coordinator must know of the node before it asks it anything.
func (n *Node) Kind() wire.NodeKind {
	t := wire.NodeKind{Cluster: n.cluster != nil, Recovery: n.cfg.HardTimeout + n.cfg.DialTimeout}
	if n.resolver != nil {
		t.MaxAge = n.cfg.Sentinels.MaxAge
	}
	return t
}

// Submit hands the node a command. It never blocks on the network. The command
// is answered exactly once, on a goroutine of the node's or before Submit
// returns; commands of one token are written in the order they were submitted.
//
// While the first dial, or one after a connection that was well, is under way,
// commands wait for it; after a failed one they fail at once. Undos are kept
// until they are answered or their not-after instant has passed.
//
// On a node that is not fit to vote all but undos are answered at once as Failed, by
// ErrUnfit, and so are all but undos and extensions while its health checks fail; the
// request's NodeSet makes exceptions. An Examine is answered by a
// connection of its own, also of an unfit node.
func (n *Node) Submit(c *wire.Command) {
	n.count.commands.Add(1)
	switch {
	case c.Op == wire.Examine:
		n.examine(c)
	case n.cluster != nil:
		n.cluster.submit(c)
	default:
		n.pipelineOf(c).submit(c, nil)
	}
}

// SubmitBoth is Submit for two commands that go out in one flush, the second behind the
// first: a release, and the acquire of the next waiter. With more than one connection
// they take different ones if their first keys differ, and then go in any order.
func (n *Node) SubmitBoth(first, second *wire.Command) {
	n.count.commands.Add(2)
	if n.cluster != nil {
		n.cluster.submitBoth(first, second)
		return
	}
	n.submitBoth(first, second)
}

func (n *Node) submitBoth(first, second *wire.Command) {
	one, two := n.pipelineOf(first), n.pipelineOf(second)
	if one == two {
		one.submit(first, second)
		return
	}
	one.submit(first, nil)
	two.submit(second, nil)
}

// pipelineOf is the connection of a name: all commands of a lock have the same keys and take one
// connection, as their order is what undoes a late acquire (docs/dev/rules.md rule 6). The next
// acquire of the name goes behind a release that nobody waited for.
func (n *Node) pipelineOf(c *wire.Command) *pipeline {
	if len(n.pipelines) == 1 || len(c.Keys) == 0 {
		return n.pipelines[0]
	}
	return n.pipelines[maphash.String(n.seed, c.Keys[0])%uint64(len(n.pipelines))]
}

// Close ends the connections and answers what is under way: unsent commands as
// Failed, sent ones as Unknown. It does not wait for the server, so that a
// frozen one can't hold it up, and returns when all goroutines but hanging dials
// of a wrapped pool have ended. It may be called more than once.
func (n *Node) Close() error {
	if n.cluster != nil {
		n.cluster.stop()
	}
	for _, l := range n.pipelines {
		l.close() // before the keepers end: from now on nothing is kept for a next connection
	}
	n.exams.close()
	n.stop()
	n.workers.Wait()
	n.exams.done.Wait()
	return n.dialer.close()
}

// maxLines bounds the log lines under way: a handler that blocks costs no more.
const maxLines = 16

// log says what happened to the node's connections, on a goroutine of its own: the
// handler is the user's, and may block, panic, or close this very node.
func (n *Node) log(msg string, err error) {
	if n.cfg.Logger == nil {
		return
	}
	if n.count.lines.Add(1) > maxLines {
		n.count.lines.Add(-1)
		return
	}
	go func() {
		defer func() {
			_ = recover() // of the user's handler: there is nobody to tell
			n.count.lines.Add(-1)
		}()
		if err != nil && !errors.Is(err, ErrClosed) {
			n.cfg.Logger.Warn("redlock node: "+msg, "node", n.cfg.Name, "error", err)
			return
		}
		n.cfg.Logger.Info("redlock node: "+msg, "node", n.cfg.Name)
	}()
}
