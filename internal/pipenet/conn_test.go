package pipenet_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

var _ net.Conn = (*pipenet.Conn)(nil)

// inBubble runs a test on a pair of connections in a bubble, which fails if a goroutine stays
// blocked.
func inBubble(t *testing.T, test func(t *testing.T, a, b *pipenet.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := pipenet.Pipe("a", "b")
		test(t, a, b)
	})
}

func write(t *testing.T, c *pipenet.Conn, s string) {
	t.Helper()
	n, err := c.Write([]byte(s))
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func read(t *testing.T, c *pipenet.Conn) string {
	t.Helper()
	p := make([]byte, 100)
	n, err := c.Read(p)
	require.NoError(t, err)
	return string(p[:n])
}

func TestBytesGoBothWaysWithoutAReader(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		write(t, a, "to b")
		write(t, b, "to a")
		require.Equal(t, 4, a.Unread())
		require.Equal(t, "to b", read(t, b))
		require.Equal(t, "to a", read(t, a))
		require.Zero(t, a.Unread())
		require.Equal(t, []string{"a", "b", "pipe"}, []string{a.LocalAddr().String(), a.RemoteAddr().String(), a.LocalAddr().Network()})
	})
}

func TestAReadWaitsForBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		time.AfterFunc(time.Hour, func() { _, _ = a.Write([]byte("late")) })
		require.Equal(t, "late", read(t, b))
	})
}

func TestAWriteBlocksWhenTheBufferIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		sent := bytes.Repeat([]byte("0123456789"), pipenet.Buffer/5)
		began := time.Now()
		got := make(chan []byte)
		time.AfterFunc(time.Minute, func() {
			p, _ := io.ReadAll(b)
			got <- p
		})
		n, err := a.Write(sent)
		require.NoError(t, err)
		require.Equal(t, len(sent), n)
		require.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, a.CloseWrite())
		require.Equal(t, sent, <-got)
	})
}

func TestDeadlinesEndBlockedReadsAndWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		began := time.Now()
		require.NoError(t, a.SetDeadline(began.Add(time.Second)))
		n, err := a.Write(make([]byte, pipenet.Buffer+1))
		require.Equal(t, pipenet.Buffer, n)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var op net.Error
		require.ErrorAs(t, err, &op)
		require.True(t, op.Timeout())
		require.Equal(t, time.Second, time.Since(began))

		write(t, b, "x")
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "also with bytes there")
		require.NoError(t, a.SetReadDeadline(time.Time{}))
		require.Equal(t, "x", read(t, a))
	})
}

func TestADeadlineMayBeMovedWhileARoutineIsBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, a, _ *pipenet.Conn) {
		began := time.Now()
		require.NoError(t, a.SetReadDeadline(began.Add(time.Hour)))
		time.AfterFunc(time.Second, func() { _ = a.SetReadDeadline(began.Add(time.Minute)) })
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))

		require.NoError(t, a.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Second, func() { _ = a.SetReadDeadline(time.Unix(1, 0)) })
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

func TestWhatWasWrittenSurvivesTheWritersClose(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		write(t, a, "last words")
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.Equal(t, "last words", read(t, b))
		_, err := b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestACloseEndsWhatIsBlockedOnBothEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		n, err := b.Write(make([]byte, pipenet.Buffer+1))
		require.Zero(t, n)
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

func TestACutLineResetsThePeerAndKeepsWhatItWrote(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		write(t, a, "on its way")
		write(t, b, "answer")
		b.Sever()
		_, err := a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "answer", read(t, a))
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "on its way", read(t, b))
		_, err = b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.NoError(t, a.Close())
	})
}

func TestDelayedWritesArriveInOrderEachInItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		began := time.Now()
		write(t, a, "at once ")
		a.Delay(time.Second)
		a.Delay(time.Millisecond) // would let bytes overtake
		require.Equal(t, "at once ", read(t, b))
		write(t, a, "one")
		time.Sleep(600 * time.Millisecond)
		write(t, a, "two")
		require.Equal(t, 6, a.Unread())
		require.Equal(t, time.Second, b.Arriving())
		require.Equal(t, "one", read(t, b))
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, "two", read(t, b))
		require.Equal(t, 1600*time.Millisecond, time.Since(began), "the delays do not add up")
		require.Zero(t, a.Unread())
		require.Zero(t, b.Arriving())

		write(t, b, "back")
		require.Equal(t, "back", read(t, a))
		require.Equal(t, 1600*time.Millisecond, time.Since(began), "the other direction is not delayed")
	})
}

func TestADelayedWriteArrivesAfterItsWritersCloseAndAfterACut(t *testing.T) {
	for name, end := range map[string]func(a, b *pipenet.Conn){
		"close": func(a, _ *pipenet.Conn) { _ = a.Close() },
		"cut":   func(_, b *pipenet.Conn) { b.Sever() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
				began := time.Now()
				a.Delay(time.Second)
				write(t, a, "last words")
				end(a, b)
				require.Equal(t, "last words", read(t, b))
				require.Equal(t, time.Second, time.Since(began))
				_, err := b.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err)
			})
		})
	}
}

func TestADelayedWriteIsLostIfThePeerCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		a.Delay(time.Second)
		write(t, a, "too late")
		require.NoError(t, b.Close())
		require.Zero(t, b.Arriving())
		time.Sleep(2 * time.Second)
		_, err := b.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, a.Unread())
	})
}

func TestBytesOnTheirWayFillTheBuffer(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b *pipenet.Conn) {
		a.Delay(time.Second)
		require.NoError(t, a.SetWriteDeadline(time.Now().Add(2*time.Second)))
		n, err := a.Write(make([]byte, 2*pipenet.Buffer))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, pipenet.Buffer, n)
		n, err = io.ReadFull(b, make([]byte, pipenet.Buffer))
		require.NoError(t, err)
		require.Equal(t, pipenet.Buffer, n)
	})
}
