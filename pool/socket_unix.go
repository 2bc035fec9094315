//go:build unix

package pool

import (
	"errors"
	"net"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// nonblockingConn is one that can be asked to take in what it has room for.
type nonblockingConn struct {
	conn  syscall.RawConn
	write func(fd uintptr) (done bool) // made once: a call of offer allocates nothing

	bytes   []byte
	written int
	err     error
}

// socketOf is nil for what is no socket, or may be more than one: a connection that wraps
// another one writes as it likes.
func socketOf(c net.Conn) *nonblockingConn {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return nil
	}
	if err != nil || setNonblock(raw) != nil {
		return nil
	}
	s := &nonblockingConn{conn: raw}
	s.write = s.writeOnce
	return s
}

// setNonblock sees to it that a system call does not wait, as Go's own sockets have it: whoever
// took the descriptor by File and Fd, to set an option in Config.Dial, has made it wait.
func setNonblock(raw syscall.RawConn) error {
	var wrong error
	err := raw.Control(func(fd uintptr) { wrong = syscall.SetNonblock(int(fd), true) }) //nolint:gosec // a file descriptor
	return oneline.Join(err, wrong)
}

// tryWrite writes what the socket takes in at once, and says how much that was. It does not
// wait: not for the peer, nor for room. Only whoever has the right to write may call it.
func (s *nonblockingConn) tryWrite(b []byte) (n int, err error) {
	s.bytes, s.written, s.err = b, 0, nil
	err = s.conn.Write(s.write)
	s.bytes = nil
	return s.written, oneline.Join(err, s.err)
}

// writeOnce reports that it is done in any case: the runtime would wait for room.
func (s *nonblockingConn) writeOnce(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.bytes) //nolint:gosec // a file descriptor
	switch {
	case err == nil:
		s.written = n
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR): // full, or as good as
	default:
		s.err = err
	}
	return true
}
