//go:build unix

package servers

import (
	"io"
	"net"
)

// A Hole accepts connections, reads whatever it is sent, and never answers.
type Hole struct{ door }

// NewHole opens one.
func NewHole() (*Hole, error) {
	h := new(Hole)
	return h, h.open(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}
