package pool

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// sockets returns both ends of a connection over the loopback.
func sockets(t *testing.T, network, address string) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	defer l.Close()
	near, err = net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	far, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// The buffer of a large batch is not kept.
func TestLargeBuffersAreNotKept(t *testing.T) {
	near, far := sockets(t, "tcp", "127.0.0.1:0")
	go func() { _, _ = io.Copy(io.Discard, far) }()
	g := &coalescingConn{Conn: near}
	for range 3 {
		_, err := g.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, g.flush())
		require.LessOrEqual(t, cap(g.buf), 64<<10)
	}
}
