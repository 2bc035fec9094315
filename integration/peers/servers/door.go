//go:build unix

package servers

import (
	"errors"
	"net"
	"sync"
)

// A door is an address of its own, and the connections that came through it.
type door struct {
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex // guards what follows
	shut   bool
	behind []net.Conn
}

// open calls welcome for each connection, in a goroutine that shutting waits for.
func (d *door) open(welcome func(net.Conn)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.listener = l
	d.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was shut
			}
			if d.keep(c) {
				d.all.Go(func() { welcome(c) })
			}
		}
	})
	return nil
}

// keep has c closed when the door is shut, and says whether it is open.
func (d *door) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		_ = c.Close()
		return false
	}
	d.behind = append(d.behind, c)
	return true
}

// Addr is where clients knock.
func (d *door) Addr() string { return d.listener.Addr().String() }

// Close shuts the door, with all connections, and waits for what goes on behind it.
func (d *door) Close() error {
	d.mu.Lock()
	d.shut = true
	errs := []error{d.listener.Close()}
	for _, c := range d.behind {
		_ = c.Close() // one that its peer has closed is as good
	}
	d.mu.Unlock()
	d.all.Wait()
	return errors.Join(errs...)
}
