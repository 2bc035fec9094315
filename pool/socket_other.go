//go:build !unix

package pool

import "net"

// nonblockingConn does not exist on this system: socketOf returns nil, and only the writer
// writes.
type nonblockingConn struct{}

func socketOf(net.Conn) *nonblockingConn { return nil }

func (*nonblockingConn) tryWrite([]byte) (int, error) { return 0, nil }
