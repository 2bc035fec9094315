package tcpfault

import (
	"net"
	"sync"
	"time"
)

// maxHeld bounds how many reads of a direction are held back. Beyond that the sender's socket
// buffer fills up, as on a network.
const maxHeld = 4096

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	hold           [2]Hold
	once           sync.Once
	ended          chan struct{}
}

// piece is the result of one read, and the time at which it may arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// forward reads from one side and writes to the other until one of them ends, and then ends both.
// It closes them if the sender has closed its side and everything has been delivered, and resets
// them otherwise.
func (l *link) forward(of Direction, from, to net.Conn) {
	pieces := make(chan piece, maxHeld)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(pieces)
		l.read(of, from, pieces)
	})
	for p := range pieces {
		if !l.deliver(of, p, to) {
			l.reset()
			break
		}
	}
	l.close()
	reader.Wait()
}

func (l *link) read(of Direction, from net.Conn, pieces chan<- piece) {
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			delay, _ := l.proxy.state(of)
			delay += l.hold[of](buf[:n])
			select {
			case pieces <- piece{buf[:n], time.Now().Add(delay)}:
			case <-l.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver writes a piece when its time has come and its direction is open.
func (l *link) deliver(of Direction, p piece, to net.Conn) bool {
	if !l.sleep(time.Until(p.due)) {
		return false
	}
	for {
		_, stopped := l.proxy.state(of)
		if stopped == nil {
			break
		}
		select {
		case <-stopped:
		case <-l.ended:
			return false
		}
	}
	n := l.proxy.take(of, len(p.bytes))
	_, err := to.Write(p.bytes[:n])
	return err == nil && n == len(p.bytes)
}

func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// state returns the current state of a direction.
func (p *Proxy) state(of Direction) (delay time.Duration, stopped chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[of]
	return w.delay, w.stopped
}

// take returns how many of n bytes are forwarded.
func (p *Proxy) take(of Direction, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[of]
	if !w.cut {
		return n
	}
	n = int(min(int64(n), w.left))
	w.left -= int64(n)
	return n
}

// close closes both sides.
func (l *link) close() {
	l.once.Do(func() { close(l.ended) })
	_ = l.client.Close()
	_ = l.server.Close()
}

// reset ends both sides by an RST, which drops what is still in their buffers.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		abort(c)
	}
	l.close()
}

// abort has the Close of a connection send an RST.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}
