package tcpfault

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is one of the two directions of a connection.
type Direction int

// The directions.
const (
	Requests Direction = iota // from the client to the server
	Replies                   // from the server to the client
)

// Proxy is a listener on the loopback address that forwards its connections to one server. Its
// methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu     sync.Mutex // guards what follows; no call under it blocks
	closed bool
	links  map[*link]bool
	ways   [2]way
	each   [2]func() Hold
}

// Hold says for each read of one connection how long it is held. It is called by one goroutine.
type Hold func(read []byte) time.Duration

// way is the state of one direction.
type way struct {
	delay   time.Duration
	stopped chan struct{} // non-nil while stopped: nothing is forwarded until it is closed
	left    int64         // with cut: how many more bytes are forwarded, over all connections
	cut     bool
}

// Listen starts a proxy on a free port. It dials the server for each connection that it accepts.
func Listen(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("tcpfault: %w", err)
	}
	p := &Proxy{listener: l, server: server, links: make(map[*link]bool)}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Delay delays all bytes of a direction by the given time, and keeps their order. A delay of 0 ends that; bytes
// that are already delayed keep their time.
func (p *Proxy) Delay(of Direction, by time.Duration) {
	p.change(of, func(w *way) { w.delay = by })
}

// DelayEach delays a direction of each later connection by a time of its own. It calls draw for each
// connection, and what that returns for each read. The order of the bytes is kept, so a read that follows
// soon is not delayed by more than the one before it. The delay of [Proxy.Delay] comes on top.
func (p *Proxy) DelayEach(of Direction, draw func() Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.each[of] = draw
}

// Stop stops forwarding a direction, while the other direction still works: the connection is half
// open. The proxy holds back what is sent until [Proxy.Resume].
func (p *Proxy) Stop(of Direction) {
	p.change(of, func(w *way) {
		if w.stopped == nil {
			w.stopped = make(chan struct{})
		}
	})
}

// Resume forwards a direction again, beginning with what was held back.
func (p *Proxy) Resume(of Direction) {
	p.change(of, func(w *way) {
		if w.stopped != nil {
			close(w.stopped)
			w.stopped = nil
		}
	})
}

// CutAfter forwards n more bytes of a direction, counted over all connections. Then it resets each
// connection that sends another byte, even in the middle of a message. A negative n ends that.
func (p *Proxy) CutAfter(of Direction, n int64) {
	p.change(of, func(w *way) { w.cut, w.left = n >= 0, n })
}

// Reset ends all existing connections by an RST on both sides. Bytes that are not delivered are
// lost.
func (p *Proxy) Reset() {
	for _, l := range p.open() {
		l.reset()
	}
}

// Close resets all connections, rejects new ones, and returns when no goroutine of the proxy runs.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) change(of Direction, how func(*way)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how(&p.ways[of])
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*link, 0, len(p.links))
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(c) })
	}
}

// serve forwards one connection to the server until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.server, 5*time.Second)
	if err != nil {
		abort(client) // nothing is more like a server that refuses, because the client has dialled already
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, ended: make(chan struct{}), hold: [2]Hold{p.drawn(Requests), p.drawn(Replies)}}
	if !p.enter(l) {
		l.reset()
		return
	}
	defer p.leave(l)
	var both sync.WaitGroup
	both.Go(func() { l.forward(Requests, client, server) })
	both.Go(func() { l.forward(Replies, server, client) })
	both.Wait()
}

func (p *Proxy) drawn(of Direction) Hold {
	p.mu.Lock()
	draw := p.each[of]
	p.mu.Unlock()
	if draw == nil {
		return func([]byte) time.Duration { return 0 }
	}
	return draw()
}

func (p *Proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = true
	}
	return !p.closed
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
