package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
)

// voter is a node as other packages of this module speak to it.
type voter struct {
	*Node
	shape
}

func voterOf(n *Node) voter { return voter{n, n.shape} }

var _ command.Voter = voter{}

func init() {
	command.FromPool = func(node any) command.Voter { return voterOf(node.(*Node)) } //nolint:forcetypeassert // its only use
}

var errTaken = errors.New("pool: it belongs to another Locker: open a node for each Locker")

// Join gives the node to a Locker.
func (v voter) Join(m *command.Membership) error {
	switch n := v.Node; {
	case n.life.Err() != nil:
		return ErrClosed
	case !n.shared.Join(m):
		return errTaken
	}
	return nil
}

// Leave reverts Join.
func (v voter) Leave() { v.shared.Leave() }

// WhyNotVoting returns why the node would not vote now, or nil if it would.
func (v voter) WhyNotVoting() error { return v.state(&Stats{}) }

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
