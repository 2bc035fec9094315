package fakeredis

import "time"

// Freeze stops the master as SIGSTOP does: dials succeed, bytes are taken in as
// far as the buffers go (64 KiB in process, the kernel's over TCP), and no
// command executes until Thaw. Replies that had left before still arrive. When it
// returns no command is under way.
func (m *Master) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
}

// Unfreeze lets a frozen master go on: what each connection sent executes in its
// order, also of connections that have been closed since (docs/dev/hazards.md H1, H56).
// Which connection comes first is as open as on a real master; HoldRequests
// decides it.
func (m *Master) Unfreeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.turn.Broadcast()
}

// Pause lets no command execute until resume is called, whatever Freeze and Thaw do
// meanwhile. When it returns none is under way.
func (m *Master) Pause() (resume func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.paused--
		m.turn.Broadcast()
	}
}

// SetDelay makes every reply arrive d later. Commands still execute when they
// arrive, so that pipelining keeps its throughput.
func (m *Master) SetDelay(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.delay = d
	for _, c := range m.clients {
		c.out.change(func(o *output) { o.delay = d })
	}
}

// HoldRequests lets nothing more of what the client sends execute until Release:
// it is on its way. Closing the connection does not take it back; CLIENT KILL does.
func (c *Client) HoldRequests() {
	c.master.mu.Lock()
	defer c.master.mu.Unlock()
	c.held = true
}

// HoldReplies keeps back what the client is to receive until Release. Its commands
// execute.
func (c *Client) HoldReplies() { c.out.change(func(o *output) { o.held = true }) }

// Release ends HoldRequests and HoldReplies.
func (c *Client) Release() {
	c.out.change(func(o *output) { o.held = false })
	c.master.mu.Lock()
	defer c.master.mu.Unlock()
	c.held = false
	c.master.turn.Broadcast()
}

// Say sends the client bytes that it did not ask for.
func (c *Client) Say(raw string) { c.out.send([]byte(raw)) }

// CutReply lets the first n bytes of the next reply through and then drops the
// connection. Commands that were sent execute all the same (docs/dev/hazards.md H71).
func (c *Client) CutReply(n int) { c.out.change(func(o *output) { o.cut = n + 1 }) }

// Drop ends the connection for the client, while the master goes on to execute
// what it has been sent (docs/dev/hazards.md H95). In process the client sees a reset, in
// both directions; over TCP it sees EOF and has to close.
func (c *Client) Drop() {
	c.out.close()
	sever(c.conn)
}
