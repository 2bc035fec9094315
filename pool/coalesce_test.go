package pool

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

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

// What a socket does not accept at once is kept in order, and flush sends it.
func TestAnOfferTakesNoMoreThanTheSocketDoes(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		near, far := sockets(t, network, address)
		g := newCoalescingConn(near)
		require.True(t, g.canTryFlush())
		require.NoError(t, near.SetWriteDeadline(time.Now().Add(maxWait))) // ends a write that waits for room

		const most = 64 << 20 // beyond every buffer
		var all []byte
		piece := make([]byte, 100_000)
		for n := byte(0); !g.hasUnsent(); n++ {
			require.Less(t, len(all), most)
			for i := range piece {
				piece[i] = n + byte(i)
			}
			all = append(all, piece...)
			_, err := g.Write(piece)
			require.NoError(t, err)
			require.NoError(t, g.tryFlush())
		}
		require.NoError(t, g.tryFlush(), "full is no error")
		require.True(t, g.hasUnsent())
		_, err := g.Write([]byte("the end"))
		require.NoError(t, err)
		all = append(all, "the end"...)

		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(far)
			got <- b
		}()
		require.NoError(t, g.flush())
		require.False(t, g.hasUnsent())
		require.NoError(t, near.Close())
		require.True(t, bytes.Equal(all, <-got), network)
		require.Error(t, g.tryFlush(), "closed")
	}
}

// TLS may write while it reads, at the same time as the goroutine with the right to write. Nothing
// is lost, and each keeps its order.
func TestWhatIsWrittenMeanwhileIsHeld(t *testing.T) {
	near, far := sockets(t, "tcp", "127.0.0.1:0")
	g := newCoalescingConn(near)
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
			require.NoError(t, g.tryFlush())
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
	g := newCoalescingConn(near)
	for range 3 {
		_, err := g.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, g.flush())
		require.LessOrEqual(t, cap(g.unsent)+cap(g.buf), 128<<10)
	}
}
