//go:build unix

package pool

import (
	"errors"
	"net"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// nonblockingConn writes to a socket as much as the socket accepts at once.
type nonblockingConn struct {
	conn  syscall.RawConn
	write func(fd uintptr) (done bool) // made once, so that tryWrite allocates nothing

	bytes   []byte
	written int
	err     error
}

// socketOf returns nil unless c is exactly a socket. A connection that wraps another one may
// change what is written.
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

// setNonblock makes system calls return at once, as on all sockets of Go. A Config.Dial that took
// the descriptor by File and Fd, to set an option, has made them wait.
func setNonblock(raw syscall.RawConn) error {
	var wrong error
	err := raw.Control(func(fd uintptr) { wrong = syscall.SetNonblock(int(fd), true) }) //nolint:gosec // a file descriptor
	return oneline.Join(err, wrong)
}

// tryWrite writes what the socket accepts at once, and returns how much that was. It waits
// neither for the peer nor for room. Only the goroutine with the right to write may call it.
func (s *nonblockingConn) tryWrite(b []byte) (n int, err error) {
	s.bytes, s.written, s.err = b, 0, nil
	err = s.conn.Write(s.write)
	s.bytes = nil
	return s.written, oneline.Join(err, s.err)
}

// writeOnce always reports that it is done, because the runtime would otherwise wait for room.
func (s *nonblockingConn) writeOnce(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.bytes) //nolint:gosec // a file descriptor
	switch {
	case err == nil:
		s.written = n
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR): // no room, or interrupted: both are tried again by the writer
	default:
		s.err = err
	}
	return true
}
