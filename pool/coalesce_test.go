package pool

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
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
	near, far := sockets(t, "tcp", "127.0.0.1:0")
	g := &coalescingConn{Conn: near}
	const each = 20_000
	write := func(first uint32) {
		for i := range uint32(each) {
			_, _ = g.Write(binary.BigEndian.AppendUint32(nil, first+i))
		}
	}
	var writers sync.WaitGroup
	writers.Go(func() { write(0) })
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	for i := range uint32(each) {
		_, err := g.Write(binary.BigEndian.AppendUint32(nil, each+i))
		require.NoError(t, err)
		if i%10 == 0 {
			require.NoError(t, g.flush())
		}
	}
	writers.Wait()
	require.NoError(t, g.flush())
	require.NoError(t, near.Close())
	next := [2]uint32{0, each}
	for b := range slices.Chunk(<-got, 4) {
		n := binary.BigEndian.Uint32(b)
		require.Equal(t, next[n/each], n)
		next[n/each]++
	}
	require.Equal(t, [2]uint32{each, 2 * each}, next)
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
		require.LessOrEqual(t, cap(g.spare)+cap(g.buf), 128<<10)
	}
}
