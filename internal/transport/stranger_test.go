package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/pipenet"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// plainRedis waits for a line, as a Redis without TLS does with the first message of TLS.
func plainRedis(conn net.Conn) {
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if line == "PING\r\n" {
			_, _ = io.WriteString(conn, "+PONG\r\n")
		}
	}
}

// It has to be known before the first vote ends, and a TLS handshake may last as long as a dial.
func TestThatAServerHasNoTLSIsKnownWithinTheNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Settings{Address: "h:1", TLS: verifyingTLS, Where: " to rediss://h:1/0"}
		s.Connect = func(context.Context, string, string) (net.Conn, error) {
			client, server := pipenet.Pipe("client", "server")
			go plainRedis(server)
			return client, nil
		}
		began := time.Now()
		_, _, err := s.dialRaw(t.Context())
		require.EqualError(t, err, "pool: no connection to rediss://h:1/0: TLS handshake: the server does not speak TLS on this port: "+useNoTLS)
		require.Equal(t, probeAfter, time.Since(began))
	}) // the bubble fails if a goroutine is left
}

func TestAFirstReplyOfRedisIsNoStranger(t *testing.T) {
	for _, first := range []string{"+", "-ERR", ":1", "$-1", "*0"} {
		require.NoError(t, checkGreeting([]byte(first)))
	}
	err := checkGreeting([]byte("H"))
	require.ErrorIs(t, err, resp.ErrLimit)
	require.False(t, errors.Is(err, io.EOF))
}
