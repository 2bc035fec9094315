package fakeredis

import (
	"bufio"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Client is one connection, seen from the master. Its methods are safe for
// concurrent use, also after it has ended.
type Client struct {
	id     int64
	master *Master
	conn   net.Conn
	in     *bufio.Reader
	out    *output
	peer   *server.Peer

	// Guarded by master.mu.
	killed     bool // executes nothing more
	held       bool // what it sends has not arrived yet
	trusted    bool // has given a password
	subscribed bool // has been a subscriber
	db         int
}

// accept takes a connection in, unless the master is stopped.
func (m *Master) accept(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up {
		return false
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

// ID is what CLIENT ID answers: increasing over the master's life, so that an id
// never comes back after a restart.
func (c *Client) ID() int64 { return c.id }

// serve executes the connection's commands, one after the other. A client that
// has gone is served to the last byte that it sent.
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

// delayedReader is what the client has sent, as far as the master takes it in: when
// frozen it doesn't, and the connection's buffer fills.
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

// unsubscribe does what miniredis does for connections that it serves itself:
// a subscriber that is gone would keep two goroutines.
func (c *Client) unsubscribe() {
	for _, name := range []string{"UNSUBSCRIBE", "PUNSUBSCRIBE"} {
		c.master.redis.Server().Dispatch(c.peer, []string{name})
	}
}

// kill ends the client; under master.mu. Closing does not block: output is
// written by a goroutine of its own.
func (c *Client) kill() {
	c.killed = true
	c.out.close()
	_ = c.conn.Close()
	c.master.turn.Broadcast()
}

// execute waits for its turn and executes one command. False means that the
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
	m.running, m.passed = c, false
	m.tell()
	c.out.capture()
	if handled {
		c.peer.WriteRaw(reply)
	} else {
		m.redis.Server().Dispatch(c.peer, words)
	}
	c.peer.Flush()
	c.out.send(c.follow(name, args, c.out.captured()))
	m.running = nil
	return !c.peer.Closed()
}

// ready waits until the client's next command may execute; under m.mu.
func (m *Master) ready(c *Client) bool {
	for !c.killed && (m.frozen || m.paused > 0 || c.held) {
		m.turn.Wait()
	}
	return !c.killed
}

// follow keeps what the hook must know of the connection, and corrects the reply
// where miniredis differs.
func (c *Client) follow(name string, args []string, reply []byte) []byte {
	m := c.master
	switch ok := strings.HasPrefix(string(reply), "+OK"); name {
	case "AUTH":
		c.trusted = c.trusted || ok
	case "SELECT":
		if ok && len(args) == 1 {
			c.db = m.script.selected(args[0])
		}
	case "SUBSCRIBE", "PSUBSCRIBE":
		c.subscribed = true
	case "SCRIPT":
		if len(args) > 0 {
			return m.loaded(args, reply)
		}
	case "EVAL":
		return scriptError(reply, args)
	case "EVALSHA":
		return scriptError(m.byText(c, args, reply), args)
	}
	return reply
}
