package pool

import "github.com/quorumlock/go-redlock/internal/command"

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
func (v voter) Submit(c *command.Command) {
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
