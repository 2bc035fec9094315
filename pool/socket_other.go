//go:build !unix

package pool

import "net"

// nonblockingConn does not exist on this system: socketOf returns nil, and only the writer
// writes.
type nonblockingConn struct{}

// socketOf returns nil: without a write that returns at once, only the writer writes.
func socketOf(net.Conn) *nonblockingConn { return nil }

// tryWrite is never called, because socketOf returns nil.
func (*nonblockingConn) tryWrite([]byte) (int, error) { return 0, nil }
