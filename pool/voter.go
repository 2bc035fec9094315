package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
)

// voter is a node as other packages of this module speak to it.
type voter struct {
	*Node
	node.Shape
}

func voterOf(n *Node) voter { return voter{n, n.shape} }

var _ command.Voter = voter{}

func init() {
	command.FromPool = func(n any) command.Voter { return voterOf(n.(*Node)) } //nolint:forcetypeassert // its only use
	node.Of = func(n any) (*node.Parts, node.Shape) {
		of, ok := n.(*Node)
		if !ok {
			of = n.(voter).Node //nolint:forcetypeassert // there are no others
		}
		return of.parts, of.shape
	}
}

var errTaken = errors.New("pool: it belongs to another Locker: open a node for each Locker")

// Join gives the node to a Locker.
func (v voter) Join(m *command.Membership) error {
	switch p := v.parts; {
	case p.Life.Err() != nil:
		return ErrClosed
	case !p.Join(m):
		return errTaken
	}
	return nil
}

// Leave reverts Join.
func (v voter) Leave() { v.parts.Leave() }

// WhyNotVoting returns why the node would not vote now, or nil if it would.
func (v voter) WhyNotVoting() error { return v.State(&node.Stats{}) }

// Kind returns what a coordinator must know about the node before it sends anything to it.
func (v voter) Kind() (k command.NodeKind) {
	if of := v.cfg.Kind; of != nil {
		k = of.NodeKind().Traits()
	}
	k.Recovery = v.cfg.HardTimeout + v.cfg.DialTimeout
	return k
}
