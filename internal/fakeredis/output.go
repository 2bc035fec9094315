package fakeredis

import (
	"net"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// output is what a client has yet to receive. It is unbounded, like Redis's reply buffers, so a
// client that does not read blocks only itself.
type output struct {
	// mu guards everything below. The only call that blocks under it is changed.Wait.
	mu      sync.Mutex
	changed sync.Cond
	queue   []reply
	taking  bool // Write receives a reply that execute collects
	taken   []byte
	delay   time.Duration
	held    bool
	cut     int // 0: nowhere; n+1: the next reply is cut after n bytes
	closed  bool
	writing bool
}

// reply is the reply to one command, or a message for a subscriber.
type reply struct {
	data []byte
	due  time.Time // zero: at once
}

func newOutput() *output {
	o := &output{}
	o.changed.L = &o.mu
	return o
}

// Write receives the output of miniredis.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	taking := o.taking
	if taking {
		o.taken = append(o.taken, p...)
	}
	o.mu.Unlock()
	if !taking {
		o.send(append([]byte(nil), p...))
	}
	return len(p), nil
}

func (o *output) capture() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking, o.taken = true, nil
}

func (o *output) captured() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking = false
	return o.taken
}

func (o *output) send(data []byte) {
	if len(data) == 0 {
		return
	}
	r := reply{data: data}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.delay > 0 {
		r.due = now().Add(o.delay)
	}
	o.queue = append(o.queue, r)
	o.changed.Broadcast()
}

// deliver writes the replies until the output is closed. It writes each reply when it is due, and
// all that are due in one write.
func (o *output) deliver(conn net.Conn) {
	for {
		data, cut, ok := o.next()
		if !ok {
			return
		}
		if _, err := conn.Write(data); err != nil {
			o.close() // the client has closed the connection: its commands still execute
		}
		if cut {
			sever(conn)
			o.close()
		}
	}
}

// next waits for replies that may be sent.
func (o *output) next() (data []byte, cut, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	o.changed.Broadcast()
	for {
		if o.closed {
			return nil, false, false
		}
		if !o.held {
			data, cut, wait := o.due()
			if len(data) > 0 || cut {
				o.writing = true
				return data, cut, true
			}
			if wait > 0 {
				timer := time.AfterFunc(wait, o.wake)
				o.changed.Wait()
				timer.Stop()
				continue
			}
		}
		o.changed.Wait()
	}
}

// due removes the replies that may be sent now, and returns the time until the next one.
func (o *output) due() (data []byte, cut bool, wait time.Duration) {
	for len(o.queue) > 0 {
		r := o.queue[0]
		if !r.due.IsZero() {
			if wait = r.due.Sub(now()); wait > 0 {
				return data, false, wait
			}
		}
		o.queue = o.queue[1:]
		if o.cut > 0 {
			return append(data, r.data[:min(o.cut-1, len(r.data))]...), true, 0
		}
		data = append(data, r.data...)
	}
	return data, false, 0
}

func (o *output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// drain waits until everything is written or the output is closed.
func (o *output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && (o.writing || len(o.queue) > 0) {
		o.changed.Wait()
	}
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue = true, nil
	o.changed.Broadcast()
}

// change changes the faults of the output.
func (o *output) change(f func(o *output)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o)
	o.changed.Broadcast()
}

// sever ends the connection for the client, while the master still reads what the client has sent.
// On a TCP connection only the sending half can be closed: the client sees EOF.
func sever(conn net.Conn) {
	switch c := conn.(type) {
	case *pipenet.Conn:
		c.Sever()
	case interface{ CloseWrite() error }:
		_ = c.CloseWrite()
	}
}

// now returns the time, which is the bubble's inside a bubble.
func now() time.Time { return time.Now() } //nolint:forbidigo // replies are due by the time that TTLs run by
