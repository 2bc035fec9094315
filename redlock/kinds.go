package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// traits are what is special about a node; nothing of one that does not tell.
func traits(n Node) wire.Traits {
	if k, ok := n.(interface{ Traits() wire.Traits }); ok {
		return k.Traits()
	}
	return wire.Traits{}
}

// checkKinds refuses nodes whose kind does not go with the settings.
func (s *settings) checkKinds(nodes []Node) error {
	for _, n := range nodes {
		if traits(n).Settle > 0 && !s.guarded {
			return invalid("the node %s follows Sentinels, and needs WithRestartGuard: a replica that they promote may lack the "+
				"locks that its master granted last", n.Name())
		}
	}
	return nil
}

// settling is by how much the quarantines of nodes last longer; nil when none do.
func settling(nodes []Node) map[string]time.Duration {
	var all map[string]time.Duration
	for _, n := range nodes {
		if d := traits(n).Settle; d > 0 {
			if all == nil {
				all = make(map[string]time.Duration)
			}
			all[n.Name()] = d
		}
	}
	return all
}
