package nodetest

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/server"
)

// gate is a clock that holds a goroutine that asks it for the time until it is open.
type gate struct {
	clock.Clock
	open chan struct{}
}

// Now waits until the gate is open.
func (g gate) Now() clock.Instant {
	<-g.open
	return g.Clock.Now()
}

// TogetherAt has the writer of a server of a node take all commands in one batch. The writer must be idle. It reads the Locker's clock
// before it takes commands.
func TogetherAt(n Node, s *server.Server, calls ...*Call) {
	b, _ := node.Of(n)
	m := *b.Member()
	g := gate{m.Clock, make(chan struct{})}
	m.Clock = g
	b.Leave()
	b.Join(&m)
	for _, c := range calls {
		if err := s.Submit(&c.Command, nil); err != nil {
			panic(err)
		}
	}
	close(g.open)
}
