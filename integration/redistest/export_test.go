package redistest

import (
	"context"
	"testing"
)

// AfterHandshake is for the tests.
var AfterHandshake = afterHandshake

// Proxied reports whether clients reach the node through a proxy.
func (n *Node) Proxied() bool { return n.late() != nil }

// Repeated asks the engine for something again and again, as long as fn fails, and fails the test in the
// end.
func Repeated(t testing.TB, fn func() error) {
	t.Helper()
	if err := repeated(context.Background(), fn, neverFinal); err != nil {
		machineFailed(t, "do it", err)
	}
}

// Frozen reports whether the server's process was stopped by a signal.
func (n *Node) Frozen() bool { return n.isFrozen() }

// OnMachine reports whether servers are on this machine's network.
func OnMachine() bool { return onMachine() }
