package fakeredis

import (
	"bufio"
	"bytes"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Client is one connection, seen from the master. Its methods are safe for concurrent use, even
// after the connection has ended.
type Client struct {
	id     int64
	master *Master
	conn   net.Conn
	in     *bufio.Reader
	out    *output
	peer   *server.Peer

	// Guarded by master.mu.
	killed     bool // executes no more commands
	held       bool // its requests have not arrived yet
	trusted    bool // has authenticated
	subscribed bool // has been a subscriber
	db         int
}

// accept serves a connection (docs/dev/rules.md rule 28). It returns false if the master is stopped.
func (m *Master) accept(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up {
		return false
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if by := m.lateness(); by > 0 {
			conn = m.late(tcp, by)
		}
	}
	m.lastID++
	c := &Client{id: m.lastID, master: m, conn: conn, out: newOutput()}
	c.in = bufio.NewReader(delayedReader{c})
	c.out.delay = m.script.delay
	c.peer = server.NewPeer(bufio.NewWriter(c.out))
	m.clients[c.id] = c
	m.served.Go(c.serve)
	m.served.Go(func() { c.out.deliver(conn) })
	return true
}

// ID returns the answer of CLIENT ID. IDs increase over all runs of the master, so a restart does
// not reuse an ID.
func (c *Client) ID() int64 { return c.id }

// serve executes the connection's commands, one after the other. It executes all that a client has
// sent, even if the client has closed the connection.
func (c *Client) serve() {
	defer c.end()
	for {
		words, err := readCommand(c.in)
		if err != nil {
			return
		}
		if !c.master.execute(c, words) {
			c.out.drain()
			return
		}
	}
}

// delayedReader reads what the client has sent when the master may read it. While the master is
// frozen it does not read, and the connection's buffer fills up.
type delayedReader struct{ *Client }

func (a delayedReader) Read(p []byte) (int, error) {
	a.master.mu.Lock()
	ok := a.master.ready(a.Client)
	a.master.mu.Unlock()
	if !ok {
		return 0, net.ErrClosed
	}
	return a.conn.Read(p)
}

func (c *Client) end() {
	m := c.master
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.subscribed {
		c.unsubscribe()
	}
	c.kill()
	delete(m.clients, c.id)
}

// unsubscribe does what miniredis does for connections that it serves itself. Without it a closed
// subscriber would keep two goroutines.
func (c *Client) unsubscribe() {
	for _, name := range []string{"UNSUBSCRIBE", "PUNSUBSCRIBE"} {
		c.master.redis.Server().Dispatch(c.peer, []string{name})
	}
}

// kill ends the client; under master.mu. Closing does not block, because another goroutine writes
// the output.
func (c *Client) kill() {
	c.killed = true
	c.out.close()
	_ = c.conn.Close()
	c.master.runnable.Broadcast()
}

// execute waits until the client may execute a command, and executes it. It returns false if the
// client has ended.
func (m *Master) execute(c *Client, words []string) bool {
	name, args := strings.ToUpper(words[0]), words[1:]
	m.mu.Lock()
	defer m.mu.Unlock()
	reply, handled, ok := m.runHook(c, name, args)
	if !ok || !m.ready(c) {
		return false
	}
	m.record.add(c.id, name, args)
	m.running = c
	m.setMiniredisTime()
	c.out.capture()
	if handled {
		c.peer.WriteRaw(reply)
	} else {
		m.redis.Server().Dispatch(c.peer, words)
	}
	c.peer.Flush()
	answer := c.out.captured()
	c.follow(name, args, answer)
	if m.observer != nil && !handled {
		m.report(name, args, answer)
	}
	c.out.send(answer)
	m.running = nil
	return !c.peer.Closed()
}

// ready waits until the client's next command may execute; under m.mu.
func (m *Master) ready(c *Client) bool {
	for !c.killed && (m.frozen || m.paused > 0 || c.held) {
		m.runnable.Wait()
	}
	return !c.killed
}

// follow records what the hook needs to know of the connection.
func (c *Client) follow(name string, args []string, reply []byte) {
	switch ok := bytes.HasPrefix(reply, []byte("+OK")); name {
	case "AUTH":
		c.trusted = c.trusted || ok
	case "SELECT":
		if ok && len(args) == 1 {
			c.db = c.master.script.selected(args[0])
		}
	case "SUBSCRIBE", "PSUBSCRIBE":
		c.subscribed = true
	}
}
