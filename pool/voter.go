package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
)

// voter is a node as other packages of this module speak to it.
type voter struct{ *Node }

var _ command.Voter = voter{}

func init() {
	command.FromPool = func(node any) command.Voter { return voter{node.(*Node)} } //nolint:forcetypeassert // its only use
}

var errTaken = errors.New("pool: it belongs to another Locker: open a node for each Locker")

// Join gives the node to a Locker.
func (v voter) Join(m *command.Membership) error {
	switch n := v.Node; {
	case n.life.Err() != nil:
		return ErrClosed
	case !n.member.CompareAndSwap(n.unowned, m):
		return errTaken
	}
	return nil
}

// Leave reverts Join.
func (v voter) Leave() { v.member.Store(v.unowned) }

// Kind returns what a coordinator must know about the node before it sends anything to it.
func (v voter) Kind() command.NodeKind {
	n := v.Node
	t := command.NodeKind{Cluster: len(n.cfg.Cluster) > 0, Recovery: n.cfg.HardTimeout + n.cfg.DialTimeout}
	// Only a node behind Sentinels needs longer quarantines: a failover may lose what was granted
	// shortly before.
	if s := n.cfg.Sentinels; s != nil {
		t.MaxAge = s.MaxAge
	}
	return t
}

// Submit queues a command, and another one right behind it unless that is nil: see command.Node.
//
// While the first dial is in progress, or one after a connection that worked, commands wait for
// it. After a failed dial they are not taken. Undos are kept until they are answered or their
// NotAfter has passed.
//
// An unfit node takes no commands but undos (ErrUnfit). While health checks fail, it takes no commands
// but undos and extensions. Membership.Unsafe makes an exception.
func (v voter) Submit(c, behind *command.Command) error {
	return v.kind.submit(c, behind)
}

// Subscribe returns a subscription without channels. It ends at the latest with the node, but only its own
// Close waits for its goroutines.
func (v voter) Subscribe(listener command.Listener) command.Subscription {
	return v.kind.subscribe(listener)
}
