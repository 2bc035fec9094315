package tcpfault_test

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/integration/tcpfault"
)

// through is a proxy, and both ends of a connection through it.
func through(t *testing.T) (p *tcpfault.Proxy, client, server net.Conn) {
	t.Helper()
	check := redistest.NoGoroutines(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p, err = tcpfault.Listen(l.Addr().String())
	require.NoError(t, err)
	client, err = net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _, _ = client.Close(), server.Close(), l.Close()
		require.NoError(t, p.Close())
		check()
	})
	return p, client, server
}

func send(t *testing.T, to net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	require.NoError(t, err)
}

func arrives(t *testing.T, at net.Conn, text string) {
	t.Helper()
	require.NoError(t, at.SetReadDeadline(time.Now().Add(20*time.Second)))
	buf := make([]byte, len(text))
	_, err := io.ReadFull(at, buf)
	require.NoError(t, err)
	require.Equal(t, text, string(buf))
}

func nothing(t *testing.T, at net.Conn) {
	t.Helper()
	require.NoError(t, at.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := at.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
}

func TestAProxyWithoutFaultsForwardsBothWays(t *testing.T) {
	_, client, server := through(t)
	send(t, client, "request")
	arrives(t, server, "request")
	send(t, server, "reply")
	arrives(t, client, "reply")
}

func TestTheEndOfOneSideEndsTheOther(t *testing.T) {
	_, client, server := through(t)
	send(t, client, "last words")
	require.NoError(t, client.Close())
	arrives(t, server, "last words")
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestDelayedBytesArriveInOrderAndNotBefore(t *testing.T) {
	p, client, server := through(t)
	const delay = 100 * time.Millisecond
	p.Delay(tcpfault.Replies, delay)
	started := time.Now()
	send(t, client, "request")
	arrives(t, server, "request")
	send(t, server, "one")
	time.Sleep(delay / 4)
	send(t, server, "two")
	arrives(t, client, "onetwo")
	assert.GreaterOrEqual(t, time.Since(started), delay)
}

func TestAHalfOpenConnectionWorksOneWayAndCatchesUp(t *testing.T) {
	for of, name := range map[tcpfault.Direction]string{tcpfault.Requests: "requests", tcpfault.Replies: "replies"} {
		t.Run(name, func(t *testing.T) {
			p, client, server := through(t)
			stuck, goes := client, server
			if of == tcpfault.Replies {
				stuck, goes = server, client
			}
			p.Stop(of)
			p.Stop(of)
			send(t, stuck, "held back")
			nothing(t, goes)
			send(t, goes, "through")
			arrives(t, stuck, "through")
			p.Resume(of)
			p.Resume(of)
			arrives(t, goes, "held back")
		})
	}
}

func TestAConnectionIsCutInTheMiddleOfAMessage(t *testing.T) {
	p, client, server := through(t)
	p.CutAfter(tcpfault.Replies, 3)
	send(t, client, "request")
	arrives(t, server, "request")
	send(t, server, "reply")
	require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
	got, err := io.ReadAll(client)
	require.Error(t, err, "a reset, not an EOF")
	assert.LessOrEqual(t, len(got), 3, "a reset drops what is unread")
	again, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer again.Close()
	p.CutAfter(tcpfault.Replies, -1)
}

func TestAResetEndsExistingConnectionsOnly(t *testing.T) {
	p, client, _ := through(t)
	p.Stop(tcpfault.Requests)
	send(t, client, "held back")
	time.Sleep(10 * time.Millisecond)
	p.Reset()
	require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := client.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	again, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestAMissingServerEndsTheConnection(t *testing.T) {
	p, err := tcpfault.Listen("127.0.0.1:1")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil { // the reset comes after the dial
		defer c.Close()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err = c.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET, "as of a server that refuses")
}

func TestEachConnectionHasADelayOfItsOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p, err := tcpfault.Listen(l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	pair := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		server, err = l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		return client, server
	}
	delays := make(chan time.Duration, 2)
	delays <- time.Hour
	delays <- 0
	p.DelayEach(tcpfault.Requests, func() tcpfault.Hold {
		by := <-delays
		return func(read []byte) time.Duration {
			if string(read) == "hello" {
				return 0
			}
			return by
		}
	})
	late, lateServer := pair()
	send(t, late, "hello")
	arrives(t, lateServer, "hello")
	send(t, late, "late")
	nothing(t, lateServer)
	send(t, lateServer, "reply")
	arrives(t, late, "reply")

	other, otherServer := pair()
	send(t, other, "soon")
	arrives(t, otherServer, "soon")
	nothing(t, lateServer)
}

func TestDelaysDoNotAddUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p, err := tcpfault.Listen(l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	read := make(chan bool)
	p.DelayEach(tcpfault.Requests, func() tcpfault.Hold {
		return func([]byte) time.Duration {
			read <- true
			return time.Second
		}
	})
	client, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	const pieces = 40 // twice as many seconds as arrives waits
	for range pieces {
		send(t, client, "x")
		<-read
	}
	arrives(t, server, strings.Repeat("x", pieces))
}
