//go:build !unix

package pool

import "net"

// nonblockingConn is not known here: the writer alone writes.
type nonblockingConn struct{}

func socketOf(net.Conn) *nonblockingConn { return nil }

func (*nonblockingConn) tryWrite([]byte) (int, error) { return 0, nil }
