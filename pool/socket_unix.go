//go:build unix

package pool

import (
	"errors"
	"net"
	"syscall"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// nonblockingConn is a socket that accepts only as many bytes as it has room for, and never
// blocks. Its fields belong to the goroutine with the right to write.
type nonblockingConn struct {
	conn  syscall.RawConn
	write func(fd uintptr) (done bool) // made once, so that a call of tryWrite does not allocate

	bytes   []byte
	written int
	err     error
}

// socketOf returns nil for a connection that is not a socket itself. A connection that wraps
// another one may do anything in its Write, so it is not bypassed.
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
	// A method value made for each call would allocate.
	s.write = s.writeOnce
	return s
}

// setNonblock makes system calls on the socket return at once, as they do on Go's own sockets.
// Code in Config.Dial that took the descriptor by File and Fd, to set an option, has made them
// block.
func setNonblock(raw syscall.RawConn) error {
	var wrong error
	err := raw.Control(func(fd uintptr) { wrong = syscall.SetNonblock(int(fd), true) }) //nolint:gosec // a file descriptor
	return oneline.Join(err, wrong)
}

// tryWrite writes what the socket accepts at once, and returns how many bytes that was. It waits
// neither for the peer nor for room. Only a goroutine with the right to write may call it.
func (s *nonblockingConn) tryWrite(b []byte) (n int, err error) {
	s.bytes, s.written, s.err = b, 0, nil
	// The runtime calls s.write once only, because it always reports that it is done.
	err = s.conn.Write(s.write)
	// The socket must not keep the caller's buffer, which is reused.
	s.bytes = nil
	return s.written, oneline.Join(err, s.err)
}

// writeOnce always reports that it is done. Otherwise the runtime would wait for room.
func (s *nonblockingConn) writeOnce(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.bytes) //nolint:gosec // a file descriptor
	switch {
	case err == nil:
		s.written = n
	// The socket is full, or a signal came first. Nothing was written, and the bytes stay unsent
	// until the writer flushes them.
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
	default:
		s.err = err
	}
	return true
}
