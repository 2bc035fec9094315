package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// watched counts how often it was closed.
type watched struct {
	net.Conn
	closed atomic.Int32
}

func (w *watched) Close() error {
	w.closed.Add(1)
	return w.Conn.Close()
}

// dialTo makes a dial function that always brings this connection.
func dialTo(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return conn, nil }
}

// docs/dev/hazards.md H74.
func TestATLSHandshakeWithAMuteServerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pipenet.Pipe("client", "server")
		defer server.Close()
		raw := &watched{Conn: client}
		c := &Settings{Address: "h:1", TLS: verifyingTLS, Connect: dialTo(raw), Where: " to rediss://h:1/0"}
		ctx, cancel := context.WithTimeout(t.Context(), probeAfter-1)
		defer cancel()
		began := time.Now()

		_, _, err := c.dialRaw(ctx)

		require.Equal(t, probeAfter-1, time.Since(began))
		require.ErrorContains(t, err, "pool: no connection to rediss://h:1/0: TLS handshake: context deadline exceeded")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Positive(t, raw.closed.Load())
	}) // the bubble fails if a goroutine is left
}

func TestNoDialErrorPassesForTheCallersOwnContext(t *testing.T) {
	for _, cause := range []error{
		context.DeadlineExceeded, context.Canceled,
		&net.OpError{Op: "dial", Err: context.DeadlineExceeded},
	} {
		dial := func(context.Context, string, string) (net.Conn, error) { return nil, cause }
		_, _, err := (&Settings{Address: "h:1", Connect: dial, Where: " to redis://h:1/0"}).dialRaw(t.Context())
		require.EqualError(t, err, "pool: no connection to redis://h:1/0: "+cause.Error())
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		var op *net.OpError
		require.False(t, errors.As(err, &op))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := (&Settings{Network: "tcp", Address: "127.0.0.1:1"}).dialRaw(ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestARefusedConnectionIsReportedAsSuch(t *testing.T) {
	// The port of an outgoing connection has no listener, and no other process gets it meanwhile.
	near, _ := sockets(t, "tcp", "127.0.0.1:0")
	_, _, err := (&Settings{Network: "tcp", Address: near.LocalAddr().String(), Password: "hunter2"}).dialRaw(t.Context())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestAUnixSocketIsDialled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	conn, out, err := (&Settings{Network: "unix", Address: path}).dialRaw(t.Context())
	require.NoError(t, err)
	defer out.Close()
	require.Same(t, out, conn)
	require.IsType(t, &net.UnixConn{}, out.Conn)
}

func TestTLSIsSpokenOverARawConnection(t *testing.T) {
	server := tlsServer()
	defer server.Close()
	c := &Settings{Network: "tcp", Address: server.Listener.Addr().String(), TLS: trusting(server)}
	conn, out, err := c.dialRaw(t.Context())
	require.NoError(t, err)
	defer out.Close()
	require.IsType(t, &net.TCPConn{}, out.Conn)
	require.True(t, conn.(*tls.Conn).ConnectionState().HandshakeComplete)
}

func TestAWrongCertificateIsRefusedAndTheConnectionClosed(t *testing.T) {
	server := tlsServer()
	defer server.Close()
	addr := server.Listener.Addr().(*net.TCPAddr)
	for want, c := range map[string]*Settings{
		"signed by unknown authority": {Address: addr.String(), TLS: verifyingTLS},
		"not h":                       {Address: "h:1", TLS: trusting(server)},
		"Config.TLS returned neither a configuration nor an error": {
			Address: "h:1", TLS: func(context.Context) (*tls.Config, error) { return nil, nil },
		},
		"no secrets today": {
			Address: "h:1", TLS: func(context.Context) (*tls.Config, error) { return nil, errors.New("no secrets today") },
		},
	} {
		conn, err := net.Dial("tcp", addr.String())
		require.NoError(t, err)
		raw := &watched{Conn: conn}
		c.Connect = dialTo(raw)
		_, _, err = c.dialRaw(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "pool: no connection: ")
		require.Positive(t, raw.closed.Load())
	}
	_, _, err := (&Settings{Network: "tcp", Address: addr.String(), TLS: verifyingTLS}).dialRaw(t.Context())
	var wrong *tls.CertificateVerificationError
	require.ErrorAs(t, err, &wrong)
}

func TestADialFunctionThatBringsNothingIsAnError(t *testing.T) {
	_, _, err := (&Settings{Address: "h:1", Connect: dialTo(nil)}).dialRaw(t.Context())
	require.ErrorContains(t, err, "Config.Dial returned neither a connection nor an error")
}

func TestCredentialsAreReadAtEveryDial(t *testing.T) {
	passwords := []string{"old", "new"}
	c := &Settings{Address: "h:1", Username: "unused", Password: "unused"}
	c.Credentials = func(context.Context) (string, string, error) {
		if len(passwords) == 0 {
			return "", "", context.DeadlineExceeded
		}
		p := passwords[0]
		passwords = passwords[1:]
		return "u", p, nil
	}
	for _, want := range []string{"old", "new"} {
		user, password, err := c.secrets(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"u", want}, []string{user, password})
	}
	_, _, err := c.secrets(t.Context())
	require.ErrorContains(t, err, "credentials: context deadline exceeded")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// verifyingTLS trusts what the system trusts.
func verifyingTLS(context.Context) (*tls.Config, error) {
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}

// The system probes an idle connection. Within 30 s a dead connection is detected, also if no
// command is sent.
func TestAnIdleConnectionIsProbed(t *testing.T) {
	require.True(t, keepAlive.Enable)
	require.LessOrEqual(t, keepAlive.Idle+time.Duration(keepAlive.Count)*keepAlive.Interval, 30*time.Second)
}

func trusting(server *httptest.Server) func(context.Context) (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return func(context.Context) (*tls.Config, error) {
		return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
	}
}

// tlsServer has a certificate for 127.0.0.1 and example.com, signed by itself.
func tlsServer() *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}
