package fakeredis

import "time"

// Freeze stops the master as SIGSTOP does. Dials succeed, bytes are accepted as far as the buffers
// go (64 KiB in process, the kernel's over TCP), and no command executes until Unfreeze. Replies
// that have left before still arrive. When Freeze returns no command is executing.
func (m *Master) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
}

// Unfreeze resumes a frozen master. Each connection's commands execute in order, including those of
// connections that have been closed meanwhile. The order of the connections is undefined, as on a
// real master; HoldRequests determines it.
func (m *Master) Unfreeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.runnable.Broadcast()
}

// Pause prevents the execution of commands until resume is called, whatever Freeze and Unfreeze do
// meanwhile. When Pause returns no command is executing.
func (m *Master) Pause() (resume func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.paused--
		m.runnable.Broadcast()
	}
}

// SetDelay makes every reply arrive d later. Commands still execute when they arrive, so pipelining
// keeps its throughput.
func (m *Master) SetDelay(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.delay = d
	for _, c := range m.clients {
		c.out.change(func(o *output) { o.delay = d })
	}
}

// HoldRequests holds back what the client sends until Release, as if it were in flight. It still
// executes if the client closes the connection, but not after CLIENT KILL.
func (c *Client) HoldRequests() {
	c.master.mu.Lock()
	defer c.master.mu.Unlock()
	c.held = true
}

// HoldReplies holds back the replies to the client until Release. Its commands execute.
func (c *Client) HoldReplies() { c.out.change(func(o *output) { o.held = true }) }

// Release ends HoldRequests and HoldReplies.
func (c *Client) Release() {
	c.out.change(func(o *output) { o.held = false })
	c.master.mu.Lock()
	defer c.master.mu.Unlock()
	c.held = false
	c.master.runnable.Broadcast()
}

// Say sends the client bytes that it did not request.
func (c *Client) Say(raw string) { c.out.send([]byte(raw)) }

// CutReply sends only the first n bytes of the next reply and then drops the connection. Commands
// that were sent still execute.
func (c *Client) CutReply(n int) { c.out.change(func(o *output) { o.cut = n + 1 }) }

// Drop ends the connection for the client, while the master still executes what the client has
// sent. In process the client sees a reset in both directions. Over TCP it sees EOF and has to
// close the connection.
func (c *Client) Drop() {
	c.out.close()
	sever(c.conn)
}
