//go:build unix

package servers

import (
	"io"
	"net"
)

// A Blackhole accepts connections, reads everything that it receives, and never answers.
type Blackhole struct{ trackedListener }

// NewBlackhole opens a Blackhole on a free port of the loopback address.
func NewBlackhole() (*Blackhole, error) {
	b := new(Blackhole)
	return b, b.listen(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}
