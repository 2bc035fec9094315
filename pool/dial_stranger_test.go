package pool

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/pipenet"
	"github.com/quorumlock/go-redlock/internal/visit"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// stranger is a TCP server on which each connection is served by serve, and then closed.
func stranger(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	return accepting(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		defer conn.Close()
		serve(conn)
	}).Addr().String()
}

// greets sends a text before it has read anything.
func greets(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// answersBy sends a text when it has read something.
func answersBy(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadByte()
		greets(text)(conn)
	}
}

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

// closesWithoutTLS is a server with TLS that closes another connection without a reply, as Redis does.
func closesWithoutTLS(server *httptest.Server) func(net.Conn) {
	return func(conn net.Conn) {
		first := bufio.NewReader(conn)
		if kind, err := first.Peek(1); err != nil || kind[0] != 0x16 {
			return
		}
		secured := tls.Server(peeked{conn, first}, server.TLS)
		_ = secured.Handshake()
	}
}

// peeked is a connection of which something was read.
type peeked struct {
	net.Conn
	first io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.first.Read(b) }

// whyUnusable returns the error of a vote, and that of a connection for the doctor.
func whyUnusable(t *testing.T, n *Node) (vote, own error) {
	t.Helper()
	for vote == nil { // the first command may be answered by its own timeout
		vote = pinging().On(n).Reply(t).Err
	}
	return vote, ownDialError(t, n)
}

// ownDialError returns why a connection for the doctor can't be made.
func ownDialError(t *testing.T, n *Node) error {
	t.Helper()
	s, err := n.shape.Servers(t.Context())
	if err == nil {
		_, err = visit.Dial(t.Context(), s.All[0])
	}
	require.Error(t, err)
	return err
}

const mysqlGreeting = "\x4a\x00\x00\x00\x0a8.0.36\x00\x0b\x00\x00\x00"

func TestWhatIsNoRedisIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"a TLS alert":             {answersBy("\x15\x03\x03\x00\x02\x02\x46"), "the server speaks TLS on this port: use TLS there (rediss:// in the URL)"},
		"closed":                  {func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadByte() }, "closed the connection without a reply"},
		"HTTP":                    {answersBy("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), "an HTTP server answered, and no Redis: correct the port"},
		"SSH":                     {greets("SSH-2.0-OpenSSH_9.6\r\n"), "an SSH server answered, and no Redis: correct the port"},
		"MySQL":                   {greets(mysqlGreeting), "a MySQL server answered, and no Redis: correct the port"},
		"MySQL, too many clients": {greets("\x17\x00\x00\x00\xff\x10\x04Too many connections"), "a MySQL server answered"},
		"POP3":                    {greets("+OK POP3 ready\r\n"), "a mail server answered, and no Redis: correct the port"},
		"IMAP":                    {greets("* OK IMAP4rev1 ready\r\n"), "a mail server answered, and no Redis: correct the port"},
		"mail":                    {greets("220 mail\x1b ESMTP\r\n"), `a server of another protocol (it sent "220 mail\x1b ESMTP\x0d\x0a") answered`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, err := Open(unhurried(Config{Address: stranger(t, c.serve)}))
			require.NoError(t, err)
			defer n.Close()
			vote, own := whyUnusable(t, n)
			require.ErrorContains(t, vote, c.want)
			require.ErrorContains(t, own, c.want)
		})
	}
}

// A server that sends an error and closes the connection, such as one in protected mode, has answered.
func TestAnErrorBeforeTheEndOfAConnectionIsShownAsItIs(t *testing.T) {
	t.Parallel()
	n, err := Open(unhurried(Config{Address: stranger(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "-DENIED protected mode\r\n") })}))
	require.NoError(t, err)
	defer n.Close()
	vote, _ := whyUnusable(t, n)
	require.ErrorContains(t, vote, "DENIED protected mode")
	require.NotContains(t, vote.Error(), "without a reply")
}

func TestATLSHandshakeWithAServerWithoutTLSSaysWhatAnswered(t *testing.T) {
	const noTLS = "use no TLS there (redis:// in the URL)"
	for what, c := range map[string]struct {
		serve func(net.Conn)
		want  []string
	}{
		"Redis waits":   {plainRedis, []string{"pool: no connection: TLS handshake: the server does not speak TLS on this port: " + noTLS}},
		"Redis refuses": {greets("-DENIED Redis is running in protected mode\r\n"), []string{"the server does not speak TLS on this port", noTLS}},
		"HTTP":          {answersBy("HTTP/1.0 400 Bad Request\r\n\r\n"), []string{"an HTTP server answered", "correct the port"}},
		"SSH":           {greets("SSH-2.0-OpenSSH_9.6\r\n"), []string{"an SSH server answered"}},
		"MySQL":         {greets(mysqlGreeting), []string{"a MySQL server answered"}},
		"closed":        {func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadByte() }, []string{"may be one without TLS", noTLS}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, err := Open(unhurried(Config{Address: stranger(t, c.serve), TLS: verifyingTLS}))
			require.NoError(t, err)
			defer n.Close()
			vote, own := whyUnusable(t, n)
			for _, want := range c.want {
				require.ErrorContains(t, vote, want)
				require.ErrorContains(t, own, want)
			}
			require.NotErrorIs(t, vote, context.DeadlineExceeded)
		})
	}
}

func TestATLSHandshakeWithAFrozenServerSaysThatItTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open(Config{Address: "h:1", TLS: verifyingTLS, Clock: clock.Runtime(), Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := pipenet.Pipe("client", "server")
			go io.Copy(io.Discard, server) //nolint:errcheck // until it is closed
			return client, nil
		}})
		require.NoError(t, err)
		defer n.Close()
		vote, own := whyUnusable(t, n)
		require.ErrorContains(t, vote, "TLS handshake: context deadline exceeded")
		require.ErrorContains(t, own, "TLS handshake: context deadline exceeded")
		require.NotErrorIs(t, vote, context.DeadlineExceeded)
	})
}

const (
	useTLS   = "use TLS there (rediss:// in the URL)"
	useNoTLS = "use no TLS there (redis:// in the URL)"
)

func TestMembersAndSentinelsWithoutTLSAreTold(t *testing.T) {
	silent := stranger(t, plainRedis)
	for what, c := range map[string]Config{
		"Cluster":   {Kind: &cluster.Config{Addresses: []string{silent}}, TLS: verifyingTLS},
		"Sentinels": {Kind: &sentinel.Config{Master: "m", Addresses: []string{silent}, TLS: verifyingTLS, MaxAge: time.Minute}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, err := Open(unhurried(c))
			require.NoError(t, err)
			defer n.Close()
			require.ErrorContains(t, ownDialError(t, n), "the server does not speak TLS on this port: "+useNoTLS)
		})
	}
}

func TestAServerWithTLSNeedsIt(t *testing.T) {
	t.Parallel()
	server := tlsServer()
	defer server.Close()
	n, err := Open(unhurried(Config{Address: server.Listener.Addr().String()}))
	require.NoError(t, err)
	defer n.Close()
	vote, _ := whyUnusable(t, n)
	require.ErrorContains(t, vote, useTLS)
}

// Redis with TLS closes a connection without TLS, as a proxy does whose server is down.
func TestAServerWithTLSThatOnlyClosesTheConnectionIsRecognized(t *testing.T) {
	t.Parallel()
	server := tlsServer()
	defer server.Close()
	n, err := Open(unhurried(Config{Address: stranger(t, closesWithoutTLS(server))}))
	require.NoError(t, err)
	defer n.Close()
	vote, _ := whyUnusable(t, n)
	require.EqualError(t, vote, "pool: the server speaks TLS on this port: "+useTLS)
}

func TestAWrappedPoolsServerThatIsNoRedisIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		serve   func(net.Conn)
		options []redis.DialOption
		want    string
	}{
		"in the handshake": {greets("SSH-2.0-OpenSSH_9.6\r\n"), nil, "a server of another protocol answered, or one with TLS"},
		"in its own AUTH":  {greets("SSH-2.0-OpenSSH_9.6\r\n"), []redis.DialOption{redis.DialPassword("hunter2")}, "a server of another protocol answered"},
		"closed":           {func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadByte() }, nil, "closed the connection without a reply"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			address := stranger(t, c.serve)
			p := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address, c.options...) }}
			defer p.Close()
			n, err := Wrap(p, unhurried(Config{Name: "w"}))
			require.NoError(t, err)
			defer n.Close()
			vote, _ := whyUnusable(t, n)
			require.ErrorContains(t, vote, c.want)
		})
	}
}

// tlsServer has a certificate for 127.0.0.1 and example.com, signed by itself.
func tlsServer() *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}
