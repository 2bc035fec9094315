//go:build !race

package hostile

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// form is what a hostile server sends: a beginning, and a continuation without end.
type form struct {
	begin, rest string
	ends        bool // it is not RESP2 or breaks a limit: the client must end the connection
}

// A form is sent for at most so many bytes, which are more than any limit on a reply, and a form of
// replies that break no limit for at most so many replies. A client that kept them all would need more
// memory than it may.
const (
	enough        = 20 << 20
	enoughReplies = 2_000_000
)

// peer is a proxy between a client and a server. It passes everything on until the client sends a
// given text, and then sends its form in place of the server's answer.
type peer struct {
	server dialer
	after  string // what the client has to send first; empty: the peer sends at once
	form   form
	armed  atomic.Bool
	said   chan struct{} // readable once the form was sent and, if it must, the client has hung up
	once   sync.Once
	conns  sync.WaitGroup
}

func newPeer(server dialer, after string, f form) *peer {
	return &peer{server: server, after: after, form: f, said: make(chan struct{})}
}

// dial connects to the server through the peer, over TCP.
func (p *peer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	up, err := p.server(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, far, err := loopback(ctx)
	if err != nil {
		_ = up.Close()
		return nil, err
	}
	c := &peerConn{peer: p, client: far, server: up}
	p.conns.Go(c.fromClient)
	p.conns.Go(c.fromServer)
	return near, nil
}

// loopback returns both ends of a TCP connection.
func loopback(ctx context.Context) (near, far net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	var d net.Dialer
	if near, err = d.DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if far, err = l.Accept(); err != nil {
		_ = near.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// peerConn is one connection of a peer.
type peerConn struct {
	peer           *peer
	client, server net.Conn

	mu       sync.Mutex // held during writes to the client
	hijacked bool
}

func (c *peerConn) fromServer() {
	p := make([]byte, 4<<10)
	for {
		n, err := c.server.Read(p)
		if err != nil {
			break
		}
		c.mu.Lock()
		if !c.hijacked {
			_, _ = c.client.Write(p[:n])
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hijacked {
		_ = c.client.Close()
	}
}

func (c *peerConn) fromClient() {
	defer c.server.Close()
	defer c.client.Close()
	var heard []byte
	p := make([]byte, 4<<10)
	for {
		if c.peer.armed.Load() && bytes.Contains(heard, []byte(c.peer.after)) {
			c.speak()
			return
		}
		n, err := c.client.Read(p)
		if err != nil {
			return
		}
		heard = append(heard[max(0, len(heard)-len(c.peer.after)):], p[:n]...)
		if c.peer.armed.Load() && bytes.Contains(heard, []byte(c.peer.after)) {
			continue
		}
		if _, err := c.server.Write(p[:n]); err != nil {
			return
		}
	}
}

// speak sends the form, and waits until the client closes the connection.
func (c *peerConn) speak() {
	c.mu.Lock()
	c.hijacked = true
	c.mu.Unlock()
	var gone sync.WaitGroup
	gone.Go(func() { // what the client sends is read, so that it is not blocked
		p := make([]byte, 4<<10)
		for {
			if _, err := c.client.Read(p); err != nil {
				return
			}
		}
	})
	f, most := c.peer.form, enough
	if !f.ends {
		most = min(most, enoughReplies*len(f.rest))
	}
	_, err := c.client.Write([]byte(f.begin))
	if f.rest != "" {
		chunk := []byte(strings.Repeat(f.rest, 1+(32<<10)/len(f.rest)))
		for said := 0; err == nil && said < most; said += len(chunk) {
			_ = c.client.SetWriteDeadline(time.Now().Add(time.Second)) // a client that does not read on is sent no more
			_, err = c.client.Write(chunk)
		}
	}
	if !f.ends {
		c.peer.once.Do(func() { close(c.peer.said) })
	}
	gone.Wait()
	c.peer.once.Do(func() { close(c.peer.said) })
}
