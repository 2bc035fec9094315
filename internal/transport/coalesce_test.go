package transport

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
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

// TLS may write while it reads, at the same time as the writer. Nothing is lost, and each keeps its
// order.
func TestWhatIsWrittenMeanwhileIsHeld(t *testing.T) {
	server := tlsServer()
	defer server.Close()
	c := &Settings{Network: "tcp", Address: server.Listener.Addr().String(), TLS: trusting(server)}
	_, g, err := c.dialRaw(t.Context())
	require.NoError(t, err)
	require.NotNil(t, g.mu, "what follows needs chance to see that nothing is locked")
	encrypted := g.Conn
	defer encrypted.Close()
	near, far := sockets(t, "tcp", "127.0.0.1:0")
	g.Conn = near
	const each, reader = 20_000, 1 << 31
	var done atomic.Bool
	var other sync.WaitGroup
	defer func() { // also if the test fails
		done.Store(true)
		other.Wait()
	}()
	written := uint32(reader)
	other.Go(func() {
		for ; !done.Load(); written++ {
			_, _ = g.Write(binary.BigEndian.AppendUint32(nil, written))
		}
	})
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	for i := range uint32(each) {
		_, err := g.Write(binary.BigEndian.AppendUint32(nil, i))
		require.NoError(t, err)
		if i%10 == 0 {
			require.NoError(t, g.flush())
		}
	}
	done.Store(true)
	other.Wait()
	require.NoError(t, g.flush())
	require.NoError(t, near.Close())
	next := [2]uint32{0, reader}
	for b := range slices.Chunk(<-got, 4) {
		n := binary.BigEndian.Uint32(b)
		require.Equal(t, next[n/reader], n)
		next[n/reader]++
	}
	require.Equal(t, [2]uint32{each, written}, next)
}

// The buffer of a large batch is not kept.
func TestLargeBuffersAreNotKept(t *testing.T) {
	near, far := sockets(t, "tcp", "127.0.0.1:0")
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() { _, _ = io.Copy(io.Discard, far) })
	defer near.Close()
	g := &coalescingConn{Conn: near}
	for range 3 {
		_, err := g.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, g.flush())
		require.LessOrEqual(t, cap(g.spare)+cap(g.buf), 128<<10)
	}
}
