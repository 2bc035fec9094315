//go:build !unix

package pool

import "net"

// socket is not known here: the writer alone writes.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) offer([]byte) (int, error) { return 0, nil }
