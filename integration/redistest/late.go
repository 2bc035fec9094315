package redistest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/go-redlock/integration/tcpfault"
	"github.com/quorumlock/go-redlock/internal/late"
)

// beLate puts a proxy in front of one of three or more nodes, in the tests of which a node is late
// ([late.Variable]). The clients of the test, which are given [Node.Addr], go through it. Some of their
// connections are drawn, whose requests the server sees late. This package reaches the server directly.
//
// The proxy's address stays the same while the test runs. A client that dials while the server is dead
// is reset, because the proxy has accepted its connection before.
func beLate(t testing.TB, nodes []*Node) {
	t.Helper()
	drawn := late.Of(t, len(nodes))
	for i, n := range nodes {
		if drawn.Is(i) {
			n.seenLate(t, drawn)
		}
	}
}

// Late is what [Start] does in tests of which a node is late, for nodes of a lock that are several servers
// each: the servers of one of them see requests late. It must be called before clients get the servers'
// addresses.
func Late(t testing.TB, networks ...*Network) {
	t.Helper()
	drawn := late.Of(t, len(networks))
	for i, w := range networks {
		if drawn.Is(i) {
			for _, n := range w.nodes() {
				n.seenLate(t, drawn)
			}
		}
	}
}

func (n *Node) seenLate(t testing.TB, drawn *late.Set) {
	t.Helper()
	p, err := tcpfault.Listen(n.server())
	if err != nil {
		t.Fatalf("redistest: node %s: %v", n.server(), err)
	}
	p.DelayEach(tcpfault.Requests, func() tcpfault.Hold { return afterHandshake(drawn.Next) })
	n.setLate(p)
	t.Cleanup(func() { // before the server goes to another test, which would see requests of this one
		n.setLate(nil)
		if err := p.Close(); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
}

// afterHandshake holds a connection from its first request that belongs to no handshake. A handshake
// has several round trips. They would take longer than a dial may.
//
// It draws at that request: Lockers connect in any order, but a test uses them in an order of its own, so
// a seed has the same result each time.
func afterHandshake(draw func() time.Duration) tcpfault.Hold {
	begun, by := false, time.Duration(0)
	return func(read []byte) time.Duration {
		if !begun && !ofHandshake(read) {
			begun, by = true, draw()
		}
		return by
	}
}

// ofHandshake reports whether what a client wrote at once begins with a command of its handshake, or
// with a question to a Sentinel.
func ofHandshake(written []byte) bool {
	// *2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n
	lines := bytes.SplitN(written, []byte("\r\n"), 4)
	if len(lines) < 4 {
		return false
	}
	switch strings.ToUpper(string(lines[2])) {
	case "HELLO", "AUTH", "SELECT", "CLIENT", "COMMAND", "INFO", "ROLE", "READONLY", "CLUSTER", "SENTINEL":
		return true
	}
	return false
}
