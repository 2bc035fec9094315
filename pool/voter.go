package pool

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/command"
)

// voter is a node as other packages of this module speak to it.
type voter struct{ node *Node }

var _ command.Voter = voter{}

func init() {
	command.FromPool = func(node any) (command.Voter, bool) {
		n, ok := node.(*Node)
		return voter{n}, ok
	}
}

// Name returns the node's name.
func (v voter) Name() string { return v.node.Name() }

// String returns what Node.String returns.
func (v voter) String() string { return v.node.String() }

// Kind returns what a coordinator must know about the node before it sends anything to it.
func (v voter) Kind() command.NodeKind {
	n := v.node
	t := command.NodeKind{Cluster: len(n.cfg.Cluster) > 0, Recovery: n.cfg.HardTimeout + n.cfg.DialTimeout}
	// Only a node behind Sentinels needs longer quarantines: a failover may lose what was granted
	// shortly before.
	if s := n.cfg.Sentinels; s != nil {
		t.MaxAge = s.MaxAge
	}
	return t
}

// Submit sends a command. It never blocks on the network. The command is answered exactly once,
// on a goroutine of the node or before Submit returns. Commands of one token are written in the
// order of submission.
//
// While the first dial is in progress, or one after a connection that worked, commands wait for
// it. After a failed dial they fail at once. Undos are kept until they are answered or their
// NotAfter has passed.
//
// On an unfit node all commands but undos are answered as Failed with ErrUnfit. While health
// checks fail, all commands but undos and extensions are. The request's NodeSet makes exceptions.
// An Examine, unless it is a health check of a connection, uses a connection of its own, also on an
// unfit node.
func (v voter) Submit(c *command.Command) {
	if c.Op == command.Examine {
		v.node.examine(c)
		return
	}
	v.node.kind.submit(c)
}

// SubmitBoth submits two commands that are written together, the second after the first: a
// release, and the acquire of the next waiter.
func (v voter) SubmitBoth(first, second *command.Command) {
	v.node.kind.submitBoth(first, second)
}

// Subscribe returns a subscription without channels. It ends at the latest with the node, whose
// Close waits for it.
func (v voter) Subscribe(listener command.Listener) command.Subscription {
	return v.node.kind.subscribe(listener)
}

// ScanKeys passes the node's keys that match a pattern of SCAN MATCH to page, some hundred at a
// time, and returns the first error of page. It uses a connection of its own, and holds up no lock.
// The result is no snapshot: a key may be passed twice, and one that is created or deleted meanwhile
// may be missing. Of a Cluster it scans every master.
//
// The scan ends with ctx, with the node, and when the server does not answer within
// Config.DialTimeout. It needs the right to SCAN.
func (v voter) ScanKeys(ctx context.Context, pattern string, page func(keys []string) error) error {
	n := v.node
	if err := n.exams.begin(); err != nil {
		return err
	}
	defer n.exams.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life, cancel)() //nolint:contextcheck // both end it
	return n.kind.scanKeys(ctx, pattern, page)
}
