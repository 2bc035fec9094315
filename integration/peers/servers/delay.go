//go:build unix

package servers

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// A Delay passes on to a server, and back, whatever it is sent, later.
type Delay struct {
	door
	target string
	by     time.Duration
	ctx    context.Context
	cancel context.CancelFunc
	post   chan parcel
}

// A parcel is bytes that are to be delivered at a time. Since all take equally long, they are due in the order they came.
type parcel struct {
	to    net.Conn
	bytes []byte
	due   time.Time
}

// NewDelay delays by so much in each direction.
func NewDelay(target string, by time.Duration) (*Delay, error) {
	d := &Delay{target: target, by: by, post: make(chan parcel, 1024)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if err := d.open(d.join); err != nil {
		return nil, err
	}
	d.all.Go(d.deliver)
	return d, nil
}

// join connects a client to the server.
func (d *Delay) join(client net.Conn) {
	server, err := net.Dial("tcp", d.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !d.keep(server) {
		return
	}
	d.all.Go(func() { d.collect(client, server) })
	d.collect(server, client)
}

// collect reads until its end, which it passes on.
func (d *Delay) collect(from, to net.Conn) {
	for {
		buf := make([]byte, 4096)
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case d.post <- parcel{to, buf[:n], time.Now().Add(d.by)}:
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

// deliver sleeps by the system's own clock: the timers of Go are off by up to a millisecond on an idle machine.
func (d *Delay) deliver() {
	for {
		select {
		case p := <-d.post:
			if wait := time.Until(p.due); wait > 0 {
				ts := unix.NsecToTimespec(int64(wait))
				_ = unix.Nanosleep(&ts, nil) // woken by a signal it delivers early
			}
			_, _ = p.to.Write(p.bytes) // whoever hung up gets nothing
		case <-d.ctx.Done():
			return
		}
	}
}

// Close hangs up on everybody.
func (d *Delay) Close() error {
	d.cancel()
	return d.door.Close()
}
