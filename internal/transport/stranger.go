package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// strangerError reports that what answered is no Redis, or not without TLS. It matches resp.ErrLimit,
// because its reply is not RESP2.
type strangerError string

// Error returns what answered, and what to try.
func (e strangerError) Error() string { return "pool: " + string(e) }

// Is reports whether target is resp.ErrLimit.
func (strangerError) Is(target error) bool { return target == resp.ErrLimit }

const (
	useTLS     = "use TLS there (rediss:// in the URL)"
	useNoTLS   = "use no TLS there (redis:// in the URL)"
	checkPort  = "correct the port (that of Redis is 6379 by default)"
	shownBytes = 32 // of an unknown protocol
)

// checkGreeting returns what is wrong with the first bytes that a server sent, of which there is at
// least one. A reply of Redis begins with one of five signs.
func checkGreeting(first []byte) error {
	sent := string(first[:min(len(first), shownBytes)]) // nothing below looks further, and INFO may be behind it
	what := ""
	switch {
	case strings.HasPrefix(sent, "\x15\x03"): // an alert: it could not read a plain command
		return errNeedsTLS
	case strings.HasPrefix(sent, "HTTP/"):
		what = "an HTTP server"
	case strings.HasPrefix(sent, "SSH-"):
		what = "an SSH server"
	case strings.HasPrefix(sent, "+OK "), strings.HasPrefix(sent, "* OK "): // Redis says no more than +OK
		what = "a mail server"
	case isMySQL(sent):
		what = "a MySQL server"
	case strings.IndexByte("+-:$*", sent[0]) >= 0:
		return nil
	default:
		what = fmt.Sprintf(`a server of another protocol (it sent "%s")`, oneline.Printable(sent))
	}
	return strangerError(what + " answered, and no Redis: " + checkPort)
}

// isMySQL reports whether a server greets as MySQL does: by a packet of less than 256 bytes with the
// number 0, which has a protocol version of 10, or an error.
func isMySQL(sent string) bool {
	return len(sent) > 4 && sent[1:4] == "\x00\x00\x00" && (sent[4] == 10 || sent[4] == 0xff)
}

// isClosing reports whether err is that the peer has closed the connection.
func isClosing(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// handshakeError explains why a TLS handshake failed, if the server may have no TLS.
func handshakeError(err error) error {
	var header tls.RecordHeaderError
	switch {
	case isClosing(err):
		return fmt.Errorf("%w: the port may be one without TLS: %s", err, useNoTLS)
	case !errors.As(err, &header) || header.RecordHeader[0] < ' ': // a record of TLS, if of a wrong version
		return err
	}
	if stranger := checkGreeting(header.RecordHeader[:]); stranger != nil {
		return stranger
	}
	return errNoTLS
}

// The server has TLS and the client has none, or the other way round.
const (
	errNeedsTLS = strangerError("the server speaks TLS on this port: " + useTLS)
	errNoTLS    = strangerError("the server does not speak TLS on this port: " + useNoTLS)
)

// speaksPlain reports whether the server answers a command without TLS, as Redis does. It uses a
// connection of its own.
func speaksPlain(ctx context.Context, s *Settings) bool {
	conn, err := s.socket(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	var first [1]byte
	_, err = io.ReadFull(conn, first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// speaksTLS reports whether the server answers a TLS handshake, whatever its certificate is worth. It uses
// a connection of its own.
func speaksTLS(ctx context.Context, s *Settings) bool {
	raw, err := s.socket(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = raw.Close() }()
	err = tls.Client(raw, &tls.Config{ServerName: s.host(), MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	var untrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	return err == nil || errors.As(err, &untrusted) || errors.As(err, &alert)
}

// noGreeting explains an error of the network before a server's first reply. hidden is set if a wrapped
// pool dialled: it hides whether there was a reply.
func noGreeting(greeted, hidden, encrypted bool, err error) error {
	switch {
	case hidden && isUnreadable(err):
		return strangerError(fmt.Sprintf("a server of another protocol answered, or one with TLS (%s): %s, or %s", err, checkPort, useTLS))
	case greeted, resp.IsServerError(err), !isClosing(err):
		return err
	case encrypted:
		return fmt.Errorf("pool: the server closed the connection without a reply (%w): a proxy without a server behind it does that", err)
	}
	return fmt.Errorf("pool: the server closed the connection without a reply (%w): it may be one with TLS: %s; a proxy without "+
		"a server behind it does that too", err, useTLS)
}

// isUnreadable reports whether redigo could not read a reply. Its type for such errors is not exported.
func isUnreadable(err error) bool { return strings.HasPrefix(err.Error(), "redigo: ") }
