//go:build unix

package servers

import (
	"errors"
	"net"
	"sync"
)

// A trackedListener listens at an address of its own and closes the connections that it accepted.
type trackedListener struct {
	listener net.Listener
	handlers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	conns  []net.Conn
}

// listen calls handle for each connection, in a goroutine that Close waits for.
func (l *trackedListener) listen(handle func(net.Conn)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l.listener = listener
	l.handlers.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			if l.track(c) {
				l.handlers.Go(func() { handle(c) })
			}
		}
	})
	return nil
}

// track registers c to be closed by Close. If the listener is already closed, track closes c and
// returns false.
func (l *trackedListener) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns = append(l.conns, c)
	return true
}

// Addr returns the address that clients connect to.
func (l *trackedListener) Addr() string { return l.listener.Addr().String() }

// Close closes the listener and all its connections, and waits for the handlers.
func (l *trackedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	errs := []error{l.listener.Close()}
	for _, c := range l.conns {
		_ = c.Close() // the peer may have closed it already
	}
	l.mu.Unlock()
	l.handlers.Wait()
	return errors.Join(errs...)
}
