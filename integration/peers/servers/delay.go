//go:build unix

package servers

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// A Delay is a proxy to a server. It forwards all bytes later, in both directions.
type Delay struct {
	trackedListener
	target  string
	by      time.Duration
	ctx     context.Context
	cancel  context.CancelFunc
	packets chan packet
}

// A packet is bytes that are to be delivered at a time. All packets take equally long, so they are
// due in the order in which they came.
type packet struct {
	to    net.Conn
	bytes []byte
	due   time.Time
}

// NewDelay opens a proxy to target that delays by the given time in each direction.
func NewDelay(target string, by time.Duration) (*Delay, error) {
	d := &Delay{target: target, by: by, packets: make(chan packet, 1024)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if err := d.listen(d.connect); err != nil {
		return nil, err
	}
	d.handlers.Go(d.deliver)
	return d, nil
}

// connect connects a client to the server.
func (d *Delay) connect(client net.Conn) {
	server, err := net.Dial("tcp", d.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !d.track(server) {
		return
	}
	d.handlers.Go(func() { d.receive(client, server) })
	d.receive(server, client)
}

// receive reads from one side until its end, and then closes the other side.
func (d *Delay) receive(from, to net.Conn) {
	for {
		buf := make([]byte, 4096)
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case d.packets <- packet{to, buf[:n], time.Now().Add(d.by)}:
			case <-d.ctx.Done():
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// deliver sleeps by the system's own clock: the timers of Go are off by up to a millisecond on an
// idle machine.
func (d *Delay) deliver() {
	for {
		select {
		case p := <-d.packets:
			if wait := time.Until(p.due); wait > 0 {
				ts := unix.NsecToTimespec(int64(wait))
				_ = unix.Nanosleep(&ts, nil) // a signal may interrupt the sleep: the packet is then delivered early
			}
			_, _ = p.to.Write(p.bytes) // fails if the receiver has closed the connection
		case <-d.ctx.Done():
			return
		}
	}
}

// Close closes all connections.
func (d *Delay) Close() error {
	d.cancel()
	return d.trackedListener.Close()
}
